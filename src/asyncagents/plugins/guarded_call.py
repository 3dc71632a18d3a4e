"""Runs plugin code that may raise, hang or ignore its cancellation, without harm to the runtime."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.plugins.thread import run_in_thread

CANCEL_GRACE_SECONDS = 0.25
"""Max time for a cancelled coroutine to end."""


class ReturnedValue(Struct, frozen=True):
    value: Any


class RaisedError(Struct, frozen=True):
    error: BaseException


class CallTimeout(Struct, frozen=True):
    """The call did not end within its time."""


GuardedOutcome: TypeAlias = ReturnedValue | RaisedError | CallTimeout


class GuardedRunner:
    """Runs functions with a time limit: coroutine functions on the loop, plain ones in a thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[ReturnedValue | RaisedError]] = set()

    async def run(self, function: Callable[..., Any], *args: Any, seconds: float) -> GuardedOutcome:
        """Run a function and return its outcome; only a cancellation of the caller is raised."""
        # A TaskGroup would wait forever for a task that swallows its cancellation.
        task = asyncio.get_running_loop().create_task(_call_catching(function, args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task], timeout=seconds)
            if task.done():
                return task.result()
            await self._cancel([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        return CallTimeout()

    async def close(self) -> None:
        """Cancel all running tasks; abandon those that do not end."""
        if self._tasks:
            await self._cancel(list(self._tasks))

    async def _cancel(self, tasks: list[asyncio.Task[ReturnedValue | RaisedError]]) -> None:
        for task in tasks:
            task.cancel()
        _, stubborn = await asyncio.wait(tasks, timeout=CANCEL_GRACE_SECONDS)
        for task in stubborn:
            _abandon(task)


def _abandon(task: asyncio.Task[Any]) -> None:
    """Unregister a task that ignores its cancellation, so that closing the loop does not wait for it."""
    asyncio._unregister_task(task)
    setattr(task, "_log_destroy_pending", False)  # noqa: B010  the timeout is reported


async def _call_catching(function: Callable[..., Any], args: tuple[Any, ...]) -> ReturnedValue | RaisedError:
    """Call a function and catch everything in its own task: a SystemExit that leaves a task ends the loop."""
    try:
        if inspect.iscoroutinefunction(function):
            return ReturnedValue(await function(*args))
        value = await run_in_thread(lambda: function(*args))
        return ReturnedValue(await value if inspect.isawaitable(value) else value)
    except BaseException as error:  # noqa: BLE001  the edge of foreign code
        return RaisedError(error)
