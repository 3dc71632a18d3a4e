"""The deadline after which a search stops and answers with what it has found."""

import time
from collections.abc import Callable


def stop_after(seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether `seconds` have passed since this call."""
    until = time.monotonic() + seconds  # noqa: TID251  a separate program has no injected clock
    return lambda: time.monotonic() > until  # noqa: TID251
