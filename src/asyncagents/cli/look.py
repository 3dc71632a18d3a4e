"""Opens the store for commands that do not run sessions, without creating one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from asyncagents.app import open_runtime
from asyncagents.cli.screen import Screen, listen
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import fleet_config
from asyncagents.engine.runtime import Runtime
from asyncagents.server.discovery import find_worker

T = TypeVar("T")


def is_empty(data: Path) -> bool:
    """Return whether there is no database: neither a file nor a shared one."""
    return fleet_config(system_environment()) is None and not (data / "asyncagents.db").exists()


async def look(data: Path, see: Callable[[Runtime], Awaitable[T]], *, nothing: T) -> T:
    """Call `see` with a runtime that serves no sessions; return `nothing` if there is no database yet."""
    if is_empty(data):
        return nothing
    listen(Screen())
    async with open_runtime(data, serve=False) as runtime:
        if fleet_config(system_environment()) is None:
            runtime.tasks.served_elsewhere = lambda pool: find_worker(data) is not None
        return await see(runtime)
