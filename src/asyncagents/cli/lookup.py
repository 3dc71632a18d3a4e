"""Opens the store for commands that do not run sessions, without creating one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.terminal.screen import Screen, log_to_screen
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


async def with_runtime(data: Path, see: Callable[[Runtime], Awaitable[T]], *, nothing: T) -> T:
    """Call `see` with a runtime that serves no sessions; return `nothing` if there is no database yet."""
    if is_empty(data):
        return nothing
    log_to_screen(Screen())
    async with open_runtime(data, serve=False) as runtime:
        if fleet_config(system_environment()) is None:
            runtime.tasks.is_served_elsewhere = lambda pool: find_worker(data) is not None
        return await see(runtime)


TASKS_HINT = "`asyncagents tasks --all` lists tasks, `asyncagents sessions --all` sessions"


async def find_session(runtime: Runtime, start: str) -> Session:
    """Find a session. Raises `CliError` if there is none, `InvalidInput` if the prefix is ambiguous."""
    if not start.removeprefix("ses_").strip():
        raise CliError("the id is empty", hint=TASKS_HINT, code=USAGE)
    try:
        return await runtime.find_session(start)
    except NotFound as error:
        raise unknown_session(start) from error


async def find_task(runtime: Runtime, start: str) -> BackgroundTask:
    session = await find_session(runtime, start)
    try:
        return await runtime.tasks.get(session.id)
    except NotFound as error:
        raise CliError(
            f"{session.id} is not a task: no other session launched it, or it was cleared",
            hint=f"`asyncagents tasks {session.id}` shows its own tasks",
            code=USAGE,
        ) from error


def unknown_session(start: str) -> CliError:
    return CliError(f"there is no task and no session with id {start!r}", hint=TASKS_HINT, code=USAGE)
