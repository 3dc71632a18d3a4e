"""Whether and when a failed request is tried again."""

from math import isfinite

from msgspec import Struct

from asyncagents.domain.clock import Rng
from asyncagents.domain.conversation.failure import APIError, Failure

MAX_RETRIES = 5
FIRST_PAUSE_MS = 2_000
MAX_PAUSE_MS = 24 * 3_600_000
"""A longer `Retry-After` makes the step fail."""
MAX_INLINE_WAIT_MS = 5_000
"""A run waits up to this long for the next try; for a longer pause it parks."""


class RetryHint(Struct, frozen=True):
    """What the provider says about the next try of a failed request."""

    after: float | None = None
    """Seconds to wait, by the provider."""
    most: int | None = None
    """Max retries; None: the default number."""


def retry_pause_ms(failure: Failure | None, attempt: int, hint: RetryHint, rng: Rng) -> int | None:
    """Return the ms until the next try after a failed `attempt`, counted from 1; None: no further try."""
    retry_after, most = hint.after, MAX_RETRIES if hint.most is None else min(hint.most, MAX_RETRIES)
    if not isinstance(failure, APIError) or not failure.data.is_retryable or attempt > most:
        return None
    if retry_after is None or not isfinite(retry_after):
        doubled: int = FIRST_PAUSE_MS << (attempt - 1)
        return doubled + rng.below(doubled // 4)
    asked = max(0, int(retry_after * 1000))
    return asked + rng.below(asked // 10 + 100) if asked <= MAX_PAUSE_MS else None


def is_rate_limited(failure: Failure | None) -> bool:
    """Whether the failure is a rate limit, which applies to all requests to the model."""
    return isinstance(failure, APIError) and failure.data.status_code == 429
