"""When a request that failed is tried again, and how long before."""

from math import isfinite

from asyncagents.domain.failure import APIError, Failure
from asyncagents.domain.port import Rng

RETRIES = 5
FIRST_MS = 2_000
LONGEST_MS = 24 * 3_600_000
"""A provider that asks for more is taken at its word only as a failure."""
PATIENCE_MS = 5_000
"""Up to here a run waits for the next try; longer, it ends, and the row waits alone."""


def pause(failure: Failure | None, attempt: int, retry_after: float | None, rng: Rng) -> int | None:
    """Milliseconds until the next try after a failed `attempt`, counted from 1. None: there is none."""
    if not isinstance(failure, APIError) or not failure.data.is_retryable or attempt > RETRIES:
        return None
    if retry_after is None or not isfinite(retry_after):
        doubled: int = FIRST_MS << (attempt - 1)
        return doubled + rng.below(doubled // 4)
    asked = max(0, int(retry_after * 1000))
    return asked + rng.below(asked // 10 + 100) if asked <= LONGEST_MS else None


def rate_limited(failure: Failure | None) -> bool:
    """Whether everyone who asks the same model would hear the same now."""
    return isinstance(failure, APIError) and failure.data.status_code == 429
