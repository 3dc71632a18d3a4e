"""A signal that ends a call, for code that cannot be cancelled: threads and programs that a tool started."""

import asyncio
import threading


class AbortSignal:
    """Set once, by the engine on its event loop; readable from any thread."""

    def __init__(self) -> None:
        self._threads = threading.Event()
        self._tasks = asyncio.Event()

    def set(self) -> None:
        self._threads.set()
        self._tasks.set()

    def is_set(self) -> bool:
        return self._threads.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block a thread until the signal is set; return False if `timeout` seconds passed first."""
        return self._threads.wait(timeout)

    async def until_set(self) -> None:
        """Wait in a coroutine until the signal is set."""
        await self._tasks.wait()
