"""Runs plain functions, each in its own daemon thread."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar, cast

T = TypeVar("T")


class _ThreadResult:
    """The value or exception of a thread, to be returned or raised by the caller."""

    def __init__(self, value: object = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error


async def run_in_thread(work: Callable[[], T], *, grace: float = 0) -> T:
    """Run `work` in a thread; a cancelled caller waits `grace` seconds for the thread, then abandons it.

    A pool would fill up once some of its threads hang, and a process waits for its pool at exit.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_ThreadResult] = loop.create_future()
    context = copy_context()

    def run() -> None:
        try:
            came_to = _ThreadResult(context.run(work))
        except BaseException as error:  # noqa: BLE001  raised by the caller
            came_to = _ThreadResult(error=error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_set_result, ended, came_to)

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


def _set_result(ended: asyncio.Future[_ThreadResult], came_to: _ThreadResult) -> None:
    if not ended.done():
        ended.set_result(came_to)
