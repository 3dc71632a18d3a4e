"""Signal handling: the first SIGINT, SIGTERM or SIGHUP is reported, the second exits at once."""

import asyncio
import os
import signal
from threading import Timer
from types import FrameType, TracebackType
from typing import Self

STOP_SECONDS = 5.0
"""Time for a stopping server or worker to close its resources."""
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Signal handlers; enter in a running loop. Signals that are ignored, as by `nohup`, stay ignored."""

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
        """Exit the process after `seconds`, as a second signal would.

        A hanging thread or child process must not block the stop.
        """
        limit = Timer(seconds, self._end_by_force, (seconds,))
        limit.daemon = True
        limit.start()

    def _end_by_force(self, seconds: float) -> None:
        os.write(2, f"not stopped within {seconds:g} s: exiting as on a second signal\n".encode())
        os._exit(
            128 + (self.number or signal.SIGTERM)
        )  # nothing is lost: acknowledged writes are on the disk

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            os._exit(128 + number)  # nothing is lost: acknowledged writes are on the disk
        self.number = number
