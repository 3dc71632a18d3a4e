"""Plain functions, each in a thread of its own that nobody has to wait for."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar, cast

T = TypeVar("T")


class _Ended:
    """What a thread came to; an exception is a value until it is raised where it was asked for."""

    def __init__(self, value: object = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error


async def in_thread(work: Callable[[], T], *, grace: float = 0) -> T:
    """Who is cancelled waits so many seconds for the thread to end, and leaves it then.

    A pool would be full once some of its threads hang, and a process waits for a pool when it ends.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_Ended] = loop.create_future()
    context = copy_context()

    def run() -> None:
        try:
            came_to = _Ended(context.run(work))
        except BaseException as error:  # noqa: BLE001  raised where it was asked for
            came_to = _Ended(error=error)
        with suppress(RuntimeError):  # the loop has gone: nobody asks any more
            loop.call_soon_threadsafe(_settle, ended, came_to)

    threading.Thread(target=run, name="asyncagents-foreign", daemon=True).start()
    try:
        await asyncio.wait([ended])
    except asyncio.CancelledError:
        if grace:
            await asyncio.wait([ended], timeout=grace)
        raise
    result = ended.result()
    if result.error is not None:
        raise result.error
    return cast(T, result.value)


def _settle(ended: asyncio.Future[_Ended], came_to: _Ended) -> None:
    if not ended.done():
        ended.set_result(came_to)
