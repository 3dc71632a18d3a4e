"""Let a process of ours come after the server where processors are short."""

import os
import signal
from contextlib import suppress
from types import FrameType

NICE = 10
SECONDS = 1.0
"""Of computing; most searches are over before."""


def come_last() -> None:
    """Take a smaller share of the processors at once, and after a second only what nobody else wants."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    if hasattr(os, "SCHED_IDLE"):  # Linux
        signal.signal(signal.SIGVTALRM, _idle)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)


def _idle(number: int, frame: FrameType | None) -> None:
    """Even one that is nice keeps a processor for milliseconds; one that is idle leaves it at once."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
