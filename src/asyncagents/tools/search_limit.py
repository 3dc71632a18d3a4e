"""When a search stops and answers with what it has found."""

import time
from collections.abc import Callable


def stop_after(seconds: float) -> Callable[[], bool]:
    """Make a function that says whether so many seconds have passed since now."""
    until = time.monotonic() + seconds  # noqa: TID251  a program of its own has no clock of ours
    return lambda: time.monotonic() > until  # noqa: TID251
