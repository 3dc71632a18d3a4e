"""Takes a child session that cannot be read out of the queue of its tree, and fails its task."""

from contextlib import suppress

import msgspec
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.part import PartTime, ToolFailed, ToolPart, ToolPending, ToolRunning
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.event import SessionError
from asyncagents.domain.id import MessageId, OwnerId, SessionId
from asyncagents.domain.task.task import TaskError, TaskOutcome
from asyncagents.store.row import IDLE, publish_status, put_part, read_part
from asyncagents.store.tx import Tx
from asyncagents.store.verb.claim import close_interrupted_step
from asyncagents.store.verb.queue import fill_places
from asyncagents.store.verb.task import readable_task
from asyncagents.store.verb.task_end import end_task


async def set_aside(tx: Tx, session_id: SessionId, owner: OwnerId, why: str) -> bool:
    """Take a child that no run can read out of its queue; the next wake tries it again.

    The task ends with an error. False: nothing was done, because the session is a root, which holds no
    place, rests, or is run by another owner.
    """
    rev = await tx.rev()
    if not await tx.run("set_aside", IDLE, rev, session_id, owner):
        return False
    await _close_steps(tx, session_id)
    await _close_calls(tx, session_id, why)
    tx.emit(SessionError(session_id=session_id, error=unknown_error(why)))
    publish_status(tx, session_id, IDLE)
    task = await readable_task(tx, session_id)
    if task is not None and task.live:
        error = TaskError("UnknownError", f"The session of this task cannot be read: {why}")
        await end_task(tx, task, TaskOutcome(status="error", error=error))
    lineage = await tx.one("lineage", session_id)
    assert lineage is not None, "the session exists"
    await fill_places(tx, lineage[0])
    return True


async def _close_steps(tx: Tx, session_id: SessionId) -> None:
    """Close the interrupted steps that can be read."""
    for request_id, message_id, tokens in await tx.all("open_requests", session_id):
        await tx.one("end_request", "lost", None, request_id)
        with suppress(Unreadable):
            if message_id:
                await close_interrupted_step(
                    tx, MessageId(message_id), msgspec.json.decode(tokens, type=Tokens)
                )


async def _close_calls(tx: Tx, session_id: SessionId, why: str) -> None:
    """Show open calls as failed; their rows stay as they are, for when they can be read again."""
    for row in await tx.all("parts_of_unsettled", session_id):
        with suppress(Unreadable):
            part = read_part(row)
            if isinstance(part, ToolPart) and isinstance(part.state, ToolPending | ToolRunning):
                time = PartTime(start=tx.now, end=tx.now)
                await put_part(
                    tx, replace(part, state=ToolFailed(input=part.state.input, error=why, time=time))
                )
