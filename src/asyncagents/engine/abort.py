"""A signal that a call shall end, for who cannot be cancelled: threads, and what a tool started itself."""

import asyncio
import threading


class AbortSignal:
    """Set once, by the engine, on its loop; looked at from anywhere."""

    def __init__(self) -> None:
        self._threads = threading.Event()
        self._tasks = asyncio.Event()

    def set(self) -> None:
        self._threads.set()
        self._tasks.set()

    def is_set(self) -> bool:
        return self._threads.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """In a thread: until it is set, or the time is over; says which."""
        return self._threads.wait(timeout)

    async def until_set(self) -> None:
        """In a coroutine."""
        await self._tasks.wait()
