"""Ctrl-C and its kin: the first one is heard, the second one ends the process at once."""

import asyncio
import os
import signal
from threading import Timer
from types import FrameType, TracebackType
from typing import Self

STOP_SECONDS = 5.0
"""So long a server or worker that stops may take to close what it has open."""
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Enter it in a running loop. What is ignored when we come, as by `nohup`, stays ignored."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in HEARD:
            before = signal.getsignal(number)
            if before is signal.SIG_IGN:
                continue
            self._before[number] = before
            loop.add_signal_handler(number, self.heard.set)  # wakes the loop
            signal.signal(number, self._note)  # is called even if a full pipe blocks the loop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number, before in self._before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)  # type: ignore[arg-type]

    def end_within(self, seconds: float) -> None:
        """End the process after so many seconds if it still runs then, as a second signal would.

        A thread that hangs, or a program that does not die, must not hold up a stop.
        """
        limit = Timer(seconds, self._end_by_force, (seconds,))
        limit.daemon = True
        limit.start()

    def _end_by_force(self, seconds: float) -> None:
        os.write(2, f"not closed within {seconds:g} s: ended as by a second signal\n".encode())
        os._exit(
            128 + (self.number or signal.SIGTERM)
        )  # nothing is lost: what was acknowledged is on the disk

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            os._exit(128 + number)  # nothing is lost: what was acknowledged is on the disk
        self.number = number
