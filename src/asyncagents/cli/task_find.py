"""Which session or task is meant: by an id, or the beginning of one, with or without `ses_`."""

from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.session import Session
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import NotFound

LISTED = "`asyncagents tasks --all` lists tasks, `asyncagents sessions --all` sessions"


async def find(runtime: Runtime, start: str) -> Session:
    """Raises `Complaint` if there is none, or more than one begins like that."""
    if not start.removeprefix("ses_").strip():
        raise Complaint("an id is missing", hint=LISTED, code=USAGE)
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
            f"{session.id} is no task: no other session launched it, or it was cleared",
            hint=f"`asyncagents tasks {session.id}` shows its own tasks",
            code=USAGE,
        ) from error


def unknown(start: str) -> Complaint:
    return Complaint(f"there is no task and no session with id {start!r}", hint=LISTED, code=USAGE)
