"""Lower the priority of a worker process below that of the server."""

import os
import signal
from contextlib import suppress
from types import FrameType

NICE = 10
IDLE_AFTER_SECONDS = 1.0
"""CPU time before the idle scheduling class; most searches end earlier."""


def lower_priority() -> None:
    """Raise the nice value now, and switch to the idle scheduling class after a second of CPU time."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    if hasattr(os, "SCHED_IDLE"):  # Linux
        signal.signal(signal.SIGVTALRM, _switch_to_idle)
        signal.setitimer(signal.ITIMER_VIRTUAL, IDLE_AFTER_SECONDS)


def _switch_to_idle(number: int, frame: FrameType | None) -> None:
    """Use SCHED_IDLE: a nice process still keeps a processor for milliseconds, an idle one yields at once."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
