"""Finds a session or task by its id or a unique prefix, with or without `ses_`."""

from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.session import Session
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import NotFound

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
