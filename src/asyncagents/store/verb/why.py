"""Reads all rows that explain why a session does not move."""

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import Situation
from asyncagents.store.row import find_backoff, require_session, unsettled_calls
from asyncagents.store.tx import Tx
from asyncagents.store.verb.external import read_external_session
from asyncagents.store.verb.notice import is_due, open_notices
from asyncagents.store.verb.read import cancel_status
from asyncagents.store.verb.task import QueuePlace, find_place, live_tasks_of


async def situation(tx: Tx, session_id: SessionId) -> Situation:
    """Read what explains why a session does not move."""
    row = await require_session(tx, session_id)
    control = row.control
    place = await find_place(tx, control) if control.state == "ready" else QueuePlace(0, 0)
    inputs = await tx.all("unread_inputs", session_id)
    last = await tx.one("last_message", session_id)
    asked = await tx.one("asked_since", session_id)
    step = decode_message(upcast(last[1], last[0])) if last else None
    return Situation(
        control=control,
        now=tx.now,
        updated=row.info.time.updated,
        calls=await unsettled_calls(tx, session_id),
        queued=sum(each[3] == "queued" for each in inputs),
        held=sum(each[3] != "queued" for each in inputs),
        due=sum(map(is_due, await open_notices(tx, session_id))),
        cancelled=(await cancel_status(tx, session_id))[1],
        place=place.number,
        crowd=place.crowd,
        asked=asked[0] if asked is not None else None,
        backoff=await find_backoff(tx, control),
        error=step.error if isinstance(step, AssistantMessage) else None,
        blocked=control.turn > 0 and control.blocked_turn == control.turn,
        children=await live_tasks_of(tx, session_id),
        external=await read_external_session(tx, session_id),
    )
