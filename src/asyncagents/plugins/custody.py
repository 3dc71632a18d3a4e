"""Runs what others wrote: it may raise, hang, or refuse to be cancelled, and nothing else suffers."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.plugins.thread import in_thread

GRACE = 0.25
"""So long a coroutine that was cancelled may take to leave."""


class Returned(Struct, frozen=True):
    value: Any


class Raised(Struct, frozen=True):
    error: BaseException


class Hung(Struct, frozen=True):
    """It took longer than it may."""


Outcome: TypeAlias = Returned | Raised | Hung


class Custody:
    """Coroutine functions run on the loop, plain ones in a thread."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Returned | Raised]] = set()

    async def run(self, function: Callable[..., Any], *args: Any, seconds: float) -> Outcome:
        """Only a cancel of the caller is raised."""
        # A TaskGroup would wait for a task that swallows its cancel, for ever.
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
        """End what still runs; what does not want to end is left behind."""
        if self._tasks:
            await self._end(list(self._tasks))

    async def _end(self, tasks: list[asyncio.Task[Returned | Raised]]) -> None:
        for task in tasks:
            task.cancel()
        _, stubborn = await asyncio.wait(tasks, timeout=GRACE)
        for task in stubborn:
            _abandon(task)


def _abandon(task: asyncio.Task[Any]) -> None:
    """Whoever ends the loop would cancel it and wait for it; it would not come, and it need not be told."""
    asyncio._unregister_task(task)
    setattr(task, "_log_destroy_pending", False)  # noqa: B010  it is known, and reported


async def _contained(function: Callable[..., Any], args: tuple[Any, ...]) -> Returned | Raised:
    """What it raises is caught in its own task: an exit that leaves a task ends the whole loop."""
    try:
        if inspect.iscoroutinefunction(function):
            return Returned(await function(*args))
        value = await in_thread(lambda: function(*args))
        return Returned(await value if inspect.isawaitable(value) else value)
    except BaseException as error:  # noqa: BLE001  the edge of foreign code
        return Raised(error)
