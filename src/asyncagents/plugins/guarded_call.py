"""Runs plugin code that may raise, hang or ignore its cancellation, without harm to the runtime."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.plugins.thread import in_thread

GRACE = 0.25
"""Max time for a cancelled coroutine to end."""


class Returned(Struct, frozen=True):
    value: Any


class Raised(Struct, frozen=True):
    error: BaseException


class Hung(Struct, frozen=True):
    """The call did not end within its time."""


Outcome: TypeAlias = Returned | Raised | Hung


class Custody:
    """Runs functions with a time limit: coroutine functions on the loop, plain ones in a thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Returned | Raised]] = set()

    async def run(self, function: Callable[..., Any], *args: Any, seconds: float) -> Outcome:
        """Run a function and return its outcome; only a cancellation of the caller is raised."""
        # A TaskGroup would wait forever for a task that swallows its cancellation.
        task = asyncio.get_running_loop().create_task(_contained(function, args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task], timeout=seconds)
            if task.done():
                return task.result()
            await self._end([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        return Hung()

    async def close(self) -> None:
        """Cancel all running tasks; abandon those that do not end."""
        if self._tasks:
            await self._end(list(self._tasks))

    async def _end(self, tasks: list[asyncio.Task[Returned | Raised]]) -> None:
        for task in tasks:
            task.cancel()
        _, stubborn = await asyncio.wait(tasks, timeout=GRACE)
        for task in stubborn:
            _abandon(task)


def _abandon(task: asyncio.Task[Any]) -> None:
    """Unregister a task that ignores its cancellation, so that closing the loop does not wait for it."""
    asyncio._unregister_task(task)
    setattr(task, "_log_destroy_pending", False)  # noqa: B010  the timeout is reported


async def _contained(function: Callable[..., Any], args: tuple[Any, ...]) -> Returned | Raised:
    """Call a function and catch everything in its own task: a SystemExit that leaves a task ends the loop."""
    try:
        if inspect.iscoroutinefunction(function):
            return Returned(await function(*args))
        value = await in_thread(lambda: function(*args))
        return Returned(await value if inspect.isawaitable(value) else value)
    except BaseException as error:  # noqa: BLE001  the edge of foreign code
        return Raised(error)
