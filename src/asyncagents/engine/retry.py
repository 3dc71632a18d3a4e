"""When a request that failed is tried again, and how long before."""

from math import isfinite

from msgspec import Struct

from asyncagents.domain.failure import APIError, Failure
from asyncagents.domain.port import Rng

RETRIES = 5
FIRST_MS = 2_000
LONGEST_MS = 24 * 3_600_000
"""A provider that asks for more is taken at its word only as a failure."""
PATIENCE_MS = 5_000
"""Up to here a run waits for the next try; longer, it ends, and the row waits alone."""


class RetryHint(Struct, frozen=True):
    """What is known of the next try of a request that failed."""

    after: float | None = None
    """Seconds that the provider asks for."""
    most: int | None = None
    """Tries after the first; None: as many as usual."""


def pause(failure: Failure | None, attempt: int, hint: RetryHint, rng: Rng) -> int | None:
    """Milliseconds until the next try after a failed `attempt`, counted from 1. None: there is none."""
    retry_after, most = hint.after, RETRIES if hint.most is None else min(hint.most, RETRIES)
    if not isinstance(failure, APIError) or not failure.data.is_retryable or attempt > most:
        return None
    if retry_after is None or not isfinite(retry_after):
        doubled: int = FIRST_MS << (attempt - 1)
        return doubled + rng.below(doubled // 4)
    asked = max(0, int(retry_after * 1000))
    return asked + rng.below(asked // 10 + 100) if asked <= LONGEST_MS else None


def rate_limited(failure: Failure | None) -> bool:
    """Whether everyone who asks the same model would hear the same now."""
    return isinstance(failure, APIError) and failure.data.status_code == 429
