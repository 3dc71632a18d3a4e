"""Claim and release: the only ways into and out of a run, besides park and rest."""

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call import NEVER_RAN
from asyncagents.domain.codec import UnknownPart
from asyncagents.domain.control import Control, Lease, Snapshot
from asyncagents.domain.failure import unknown
from asyncagents.domain.id import MessageId, OwnerId, SessionId
from asyncagents.domain.message import AssistantMessage
from asyncagents.domain.part import (
    Part,
    PartTime,
    ReasoningPart,
    TextPart,
    ToolError,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.session import Session, Tokens
from asyncagents.store.row import (
    SessionRow,
    entry,
    find_session,
    held,
    put_part,
    save,
    save_message,
    snapshot,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.child_wait import tell_above
from asyncagents.store.verb.queue import is_queued

CUT_OFF = "The process stopped while this answer was being written; it is written again."


async def claim(
    tx: Tx, session_id: SessionId, owner: OwnerId, *, dead: OwnerId | None, counts: bool = True
) -> Snapshot | None:
    """Take a session that is ready, or whose owner is `dead`; None if there is nothing to take.

    It counts towards a crash loop, unless the run before it only failed to write.
    """
    row = await find_session(tx, session_id)
    if row is None:
        return None
    if not _free(row.control, dead):
        return None
    if row.control.state == "ready" and await is_queued(tx, row.control):
        return None  # whoever stops to work makes room
    info = row.info
    if row.control.state == "running":
        info = await _close_cut_steps(tx, info)
    row = await save(tx, row, row.control.claimed(owner, counts=counts), info)
    await tell_above(tx, row.control, waits=False)
    return await snapshot(tx, row)


def _free(control: Control, dead: OwnerId | None) -> bool:
    return control.state == "ready" or (control.state == "running" and control.owner == dead)


async def release(tx: Tx, lease: Lease) -> None:
    """Give a session back before its work is done: somebody else may go on at once."""
    await _release(tx, await held(tx, lease))


async def give_back(tx: Tx, session_id: SessionId, owner: OwnerId) -> None:
    """As `release`, by who was stopped before it heard whether its claim had come through."""
    row = await find_session(tx, session_id)
    if row is not None and row.control.state == "running" and row.control.owner == owner:
        await _release(tx, row)


async def _release(tx: Tx, row: SessionRow) -> None:
    info = await _close_cut_steps(tx, row.info)
    control = replace(row.control, state="ready", owner=None, claims=max(0, row.control.claims - 1))
    await save(tx, row, control, info)


async def _close_cut_steps(tx: Tx, info: Session) -> Session:
    """A step whose process died is closed for people, hidden from the model, and charged as estimated."""
    for request_id, message_id, tokens in await tx.all("open_requests", info.id):
        await tx.one("end_request", "lost", None, request_id)
        spent = msgspec.json.decode(tokens, type=Tokens)
        if message_id:  # else it was for a title
            await close_step(tx, MessageId(message_id), spent)
        info = charged(info, spent, 0.0)
    return info


async def close_step(tx: Tx, message_id: MessageId, spent: Tokens) -> None:
    cut = await entry(tx, message_id)
    assert isinstance(cut.info, AssistantMessage)
    for part in cut.parts:
        if (shut := _shut(part, tx.now)) is not part:
            await put_part(tx, shut)
    closed = replace(
        cut.info,
        error=unknown(CUT_OFF),
        tokens=spent,
        time=replace(cut.info.time, completed=tx.now),
    )
    await save_message(tx, closed, hidden=True)


def _shut(part: Part | UnknownPart, now: int) -> Part | UnknownPart:
    """No part stays half open."""
    match part:
        case TextPart(time=PartTime(end=None) as time) | ReasoningPart(time=PartTime(end=None) as time):
            return replace(part, time=replace(time, end=now))
        case ToolPart(state=ToolPending(input=given)):
            error = ToolError(input=given, error=NEVER_RAN, time=PartTime(start=now, end=now))
            return replace(part, state=error)
        case _:
            return part


def charged(info: Session, spent: Tokens, cost: float) -> Session:
    """A session's running sums."""
    return replace(info, tokens=(info.tokens or Tokens.zero()).plus(spent), cost=(info.cost or 0) + cost)
