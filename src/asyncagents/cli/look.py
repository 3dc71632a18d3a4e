"""For commands that only look: what is stored, without making anything that is not there."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from asyncagents.app import open_runtime
from asyncagents.cli.screen import Screen, listen
from asyncagents.engine.runtime import Runtime
from asyncagents.server.discovery import find_worker

T = TypeVar("T")


async def look(data: Path, see: Callable[[Runtime], Awaitable[T]], *, nothing: T) -> T:
    """`nothing` is what there is where nobody has stored anything yet."""
    if not (data / "asyncagents.db").exists():
        return nothing
    listen(Screen())
    async with open_runtime(data, serve=False) as runtime:
        runtime.tasks.served_elsewhere = lambda: find_worker(data) is not None
        return await see(runtime)
