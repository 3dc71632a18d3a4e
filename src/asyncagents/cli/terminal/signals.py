"""Signal handling: the first SIGINT, SIGTERM or SIGHUP is reported, the second exits at once."""

import asyncio
import os
import signal
from threading import Timer
from types import FrameType, TracebackType
from typing import Self

STOP_SECONDS = 5.0
"""Time for a stopping server or worker to close its resources."""
HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Signal handlers; enter in a running loop. Signals that are ignored, as by `nohup`, stay ignored."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.number: int | None = None
        self._previous_handlers: dict[int, object] = {}
        self._is_exit_set = False

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in HANDLED_SIGNALS:
            before = signal.getsignal(number)
            if before is signal.SIG_IGN:
                continue
            self._previous_handlers[number] = before
            loop.add_signal_handler(number, self.received.set)  # wakes the loop
            signal.signal(number, self._handle)  # is called even if a full pipe blocks the loop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number, before in self._previous_handlers.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)  # type: ignore[arg-type]

    def force_exit_after(self, seconds: float) -> None:
        """Exit the process after `seconds`, as a second signal would; a later call changes nothing.

        A hanging thread or child process must not block the stop.
        """
        if self._is_exit_set:
            return
        self._is_exit_set = True
        limit = Timer(seconds, self._force_exit, (seconds,))
        limit.daemon = True
        limit.start()

    def _force_exit(self, seconds: float) -> None:
        os.write(2, f"not stopped within {seconds:g} s: exiting as on a second signal\n".encode())
        os._exit(
            128 + (self.number or signal.SIGTERM)
        )  # nothing is lost: acknowledged writes are on the disk

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            os._exit(128 + number)  # nothing is lost: acknowledged writes are on the disk
        self.number = number
