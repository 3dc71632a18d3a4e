"""How long a test waits, and how it waits for what no event tells."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 40.0
"""So long a test waits for what must come; a healthy run never does."""
LOOK_SECONDS = 0.01
"""Pause between two looks."""


@overload
async def wait_until(
    look: Callable[[], Awaitable[T | None]], *, seconds: float | None = ..., pause: float = ...
) -> T: ...
@overload
async def wait_until(
    look: Callable[[], T | None], *, seconds: float | None = ..., pause: float = ...
) -> T: ...
async def wait_until(
    look: Callable[[], Any], *, seconds: float | None = PATIENCE, pause: float = LOOK_SECONDS
) -> Any:
    """Call `look` until it returns something true, and return that; raise `TimeoutError` after `seconds`.

    For what no event tells: the rows, files and processes of others, or the end of a run. A test that can
    wait for an event, a line of output or an exit does that instead. `None`: others end the wait.
    """
    async with asyncio.timeout(seconds):
        while True:
            found = look()
            if isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(pause)
