"""Tasks and futures of the simulated loop: numbered, so that nothing depends on memory addresses."""

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SimFuture(asyncio.Future[T]):
    """A future whose hash is its number, so that sets of futures iterate alike in every process."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    """A task whose hash is its number."""

    def __init__(self, coro: Coroutine[Any, Any, T], number: int, **options: Any) -> None:
        self.number = number  # before asyncio's __init__, which puts the task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number

    def where(self) -> str:
        """Return the innermost line at which the task waits."""
        inner: Any = self.get_coro()
        place = qualname(inner)
        while (frame := getattr(inner, "cr_frame", None)) is not None:
            place = f"in {frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
            inner = inner.cr_await
        return place


def qualname(thing: Any) -> str:
    """Return a name for a callback or coroutine that is the same in every process."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    try:
        name: str = thing.__qualname__
    except AttributeError:
        name = type(thing).__qualname__
    return name


def label(callback: Any, args: Any) -> str:
    """Return the trace entry for a callback that is not a step of a task."""
    name = qualname(callback)
    return f"{name} {args[0].number}" if args and isinstance(args[0], SimTask) else name
