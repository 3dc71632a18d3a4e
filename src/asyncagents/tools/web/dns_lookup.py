"""Look up host names in separate threads, so that a slow name server blocks nothing else."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import TypeAlias

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host. Raises `OSError`."""
MOST_AT_ONCE = 16
TIMEOUT_SECONDS = 10.0
_LookupResult: TypeAlias = list[str] | OSError


class ThreadedLookup:
    """Lookup by the system's resolver. A waiting thread cannot be ended: at most `most` run at once, and the
    program does not wait for them when it ends."""

    def __init__(self, *, seconds: float = TIMEOUT_SECONDS, most: int = MOST_AT_ONCE) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(most)

    async def __call__(self, host: str, port: int) -> list[str]:
        async with asyncio.timeout(self._seconds):
            await self._slots.acquire()
            answer = await self._start_thread(host, port)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _start_thread(self, host: str, port: int) -> "asyncio.Future[_LookupResult]":
        found: asyncio.Future[_LookupResult] = asyncio.get_running_loop().create_future()
        try:
            Thread(target=self._look_up, args=(host, port, found), daemon=True).start()
        except RuntimeError:  # the system refuses more threads
            self._deliver(found, OSError("the name cannot be looked up: the system refuses more threads"))
        return found

    def _look_up(self, host: str, port: int, found: "asyncio.Future[_LookupResult]") -> None:
        answer = _ask_system(host, port)
        with suppress(RuntimeError):  # the loop is closed, so the answer is not needed
            found.get_loop().call_soon_threadsafe(self._deliver, found, answer)

    def _deliver(self, found: "asyncio.Future[_LookupResult]", answer: _LookupResult) -> None:
        self._slots.release()
        if not found.done():
            found.set_result(answer)


def _ask_system(host: str, port: int) -> _LookupResult:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError as error:  # a label that is empty or too long
        return OSError(str(error))
    return list(dict.fromkeys(str(each[4][0]) for each in found))
