"""Claims and releases sessions: the only ways into and out of a run, besides park and rest."""

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call.call import NEVER_RAN
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    ReasoningPart,
    TextPart,
    ToolFailed,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.id import MessageId, OwnerId, SessionId
from asyncagents.domain.session_state import Claim, Control, Snapshot
from asyncagents.store.row import (
    SessionRow,
    claimed_session,
    find_session,
    put_part,
    require_message,
    save_message,
    save_session,
    snapshot,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.child_wait import mark_waiting_calls
from asyncagents.store.verb.queue import is_queued

CUT_OFF = "The process stopped while this answer was being written; it is written again."


async def claim(
    tx: Tx, session_id: SessionId, owner: OwnerId, *, dead: OwnerId | None, counts: bool = True
) -> Snapshot | None:
    """Claim a session that is ready, or whose owner is `dead`; None if it cannot be claimed.

    The claim counts towards a crash loop unless `counts` is False: the last run only failed to write.
    """
    row = await find_session(tx, session_id)
    if row is None:
        return None
    if not _is_claimable(row.control, dead):
        return None
    if row.control.state == "ready" and await is_queued(tx, row.control):
        return None  # a session that stops working wakes it
    info = row.info
    if row.control.state == "running":
        info = await _close_interrupted_steps(tx, info)
    row = await save_session(tx, row, row.control.after_claim(owner, counts=counts), info)
    await mark_waiting_calls(tx, row.control, waits=False)
    return await snapshot(tx, row)


def _is_claimable(control: Control, dead: OwnerId | None) -> bool:
    return control.state == "ready" or (control.state == "running" and control.owner == dead)


async def release(tx: Tx, claim: Claim) -> None:
    """Release a claim before the work is done; another run may claim the session at once."""
    await _release(tx, await claimed_session(tx, claim))


async def give_back(tx: Tx, session_id: SessionId, owner: OwnerId) -> None:
    """Release a session if this owner holds its claim; the owner need not know whether it was committed."""
    row = await find_session(tx, session_id)
    if row is not None and row.control.state == "running" and row.control.owner == owner:
        await _release(tx, row)


async def _release(tx: Tx, row: SessionRow) -> None:
    info = await _close_interrupted_steps(tx, row.info)
    control = replace(row.control, state="ready", owner=None, claims=max(0, row.control.claims - 1))
    await save_session(tx, row, control, info)


async def _close_interrupted_steps(tx: Tx, info: Session) -> Session:
    """Close steps whose process died: visible to people, hidden from the model, charged as estimated."""
    for request_id, message_id, tokens in await tx.all("open_requests", info.id):
        await tx.one("end_request", "lost", None, request_id)
        spent = msgspec.json.decode(tokens, type=Tokens)
        if message_id:  # else it was for a title
            await close_interrupted_step(tx, MessageId(message_id), spent)
        info = add_usage(info, spent, 0.0)
    return info


async def close_interrupted_step(tx: Tx, message_id: MessageId, spent: Tokens) -> None:
    cut = await require_message(tx, message_id)
    assert isinstance(cut.info, AssistantMessage)
    for part in cut.parts:
        if (shut := _close_part(part, tx.now)) is not part:
            await put_part(tx, shut)
    closed = replace(
        cut.info,
        error=unknown_error(CUT_OFF),
        tokens=spent,
        time=replace(cut.info.time, completed=tx.now),
    )
    await save_message(tx, closed, hidden=True)


def _close_part(part: Part | UnknownPart, now: int) -> Part | UnknownPart:
    """Close a part that is still streaming."""
    match part:
        case TextPart(time=PartTime(end=None) as time) | ReasoningPart(time=PartTime(end=None) as time):
            return replace(part, time=replace(time, end=now))
        case ToolPart(state=ToolPending(input=given)):
            error = ToolFailed(input=given, error=NEVER_RAN, time=PartTime(start=now, end=now))
            return replace(part, state=error)
        case _:
            return part


def add_usage(info: Session, spent: Tokens, cost: float) -> Session:
    """Add tokens and cost to the sums of a session."""
    return replace(info, tokens=(info.tokens or Tokens.zero()).plus(spent), cost=(info.cost or 0) + cost)
