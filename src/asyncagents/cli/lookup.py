"""Opens the store for commands that do not run sessions, without creating one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.terminal.screen import Screen, listen
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import fleet_config
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound
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


LISTED = "`asyncagents tasks --all` lists tasks, `asyncagents sessions --all` sessions"


async def find(runtime: Runtime, start: str) -> Session:
    """Find a session. Raises `CliError` if there is none, `InvalidInput` if the prefix is ambiguous."""
    if not start.removeprefix("ses_").strip():
        raise Complaint("the id is empty", hint=LISTED, code=USAGE)
    try:
        return await runtime.find_session(start)
    except NotFound as error:
        raise unknown(start) from error


async def find_task(runtime: Runtime, start: str) -> BackgroundTask:
    session = await find(runtime, start)
    try:
        return await runtime.tasks.get(session.id)
    except NotFound as error:
        raise Complaint(
            f"{session.id} is not a task: no other session launched it, or it was cleared",
            hint=f"`asyncagents tasks {session.id}` shows its own tasks",
            code=USAGE,
        ) from error


def unknown(start: str) -> Complaint:
    return Complaint(f"there is no task and no session with id {start!r}", hint=LISTED, code=USAGE)
