"""Reads for people, clients and the engine."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.conversation.codec import (
    UnknownPart,
    Unreadable,
    decode_message,
    decode_session,
    decode_status,
    upcast,
)
from asyncagents.domain.conversation.entry import MessageWithParts, ModelHistory
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import Part, ToolPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import CallId, MessageId, OwnerId, PartId, SessionId
from asyncagents.domain.session_state import Claim, Control, ControlState, Snapshot
from asyncagents.errors import NotFound
from asyncagents.store.row import (
    claimed_session,
    decode_call,
    inbox,
    read_part,
    require_call,
    require_message,
    require_session,
    snapshot,
    sort_id_of,
    unsettled_calls,
)
from asyncagents.store.tx import Row, Tx

AFTER_ALL_POSITIONS = 2**62

__all__ = ["require_call", "require_message", "unsettled_calls"]


class InputRow(Struct, frozen=True):
    message_id: MessageId
    session_id: SessionId
    state: Literal["queued", "held", "aborted", "promoted"]
    turn: int | None
    answer_id: MessageId | None


class ActiveSession(Struct, frozen=True):
    """A session that is ready or running."""

    session_id: SessionId
    state: ControlState
    owner: OwnerId | None


class DueTimes(Struct, frozen=True):
    """When the first row of each kind is due, in ms since the epoch; None: there is none."""

    call: int | None
    task: int | None
    backoff: int | None
    delivery: int | None
    poll: int | None = None
    """Of an MCP server whose task works for a call; not while a person is asked."""


async def session(tx: Tx, session_id: SessionId) -> Session:
    return (await require_session(tx, session_id)).info


async def control(tx: Tx, session_id: SessionId) -> Control:
    return (await require_session(tx, session_id)).control


async def cancel_status(tx: Tx, session_id: SessionId) -> tuple[Control, bool]:
    """Read the control columns, and whether a cancel still has something to end."""
    control = (await require_session(tx, session_id)).control
    stranded = (await inbox(tx, session_id)).stranded
    calls = [call for call in await unsettled_calls(tx, session_id) if call.open]
    return control, control.is_cancelled(stranded=stranded, calls=len(calls))


async def claimed_snapshot(tx: Tx, claim: Claim) -> Snapshot:
    return await snapshot(tx, await claimed_session(tx, claim))


async def sessions(tx: Tx, project_id: str, *, after: str = "", limit: int = 100) -> tuple[Session, ...]:
    """List the sessions of a project, newest first."""
    return tuple(_readable(await tx.all("sessions_of_project", project_id, after, limit)))


async def roots(
    tx: Tx, project_id: str | None = None, *, after: str = "", limit: int = 100
) -> tuple[Session, ...]:
    """List sessions without a parent, of one project or of all, newest first."""
    if project_id is None:
        return tuple(_readable(await tx.all("roots", after, limit)))
    return tuple(_readable(await tx.all("roots_of_project", project_id, after, limit)))


async def session_ids_with_prefix(tx: Tx, start: str, *, limit: int = 2) -> tuple[SessionId, ...]:
    """List session ids with a prefix."""
    return tuple(SessionId(row[0]) for row in await tx.all("session_ids", start, start + "~", limit))


async def children(tx: Tx, session_id: SessionId) -> tuple[Session, ...]:
    await require_session(tx, session_id)
    return tuple(_readable(await tx.all("children", session_id)))


def _readable(rows: list[Row]) -> Iterator[Session]:
    """Decode the readable sessions."""
    for info, version in rows:
        with suppress(Unreadable):
            yield decode_session(upcast(version, info))


async def status(tx: Tx, session_id: SessionId) -> Status:
    return decode_status((await require_session(tx, session_id)).status.encode())


async def statuses(tx: Tx, root_id: SessionId | None = None) -> dict[SessionId, Status]:
    """Read the statuses of all sessions, or of a tree, that are not idle; unreadable ones are left out."""
    found: dict[SessionId, Status] = {}
    rows = await (tx.all("tree_statuses", root_id) if root_id else tx.all("statuses"))
    for session_id, text in rows:
        with suppress(Unreadable):
            found[SessionId(session_id)] = decode_status(text.encode())
    return found


async def working_sessions(tx: Tx, root_id: SessionId) -> tuple[SessionId, ...]:
    """List the sessions of a tree that neither rest nor wait for the outside; overdue waits count as work."""
    return tuple(SessionId(row[0]) for row in await tx.all("tree_at_work", root_id, tx.now))


async def history_between(
    tx: Tx, session_id: SessionId, since: int = 0, *, before: int = AFTER_ALL_POSITIONS
) -> tuple[MessageWithParts, ...]:
    """Read the history from one position to another, in the order the model reads it."""
    parts: dict[str, list[Part | UnknownPart]] = {}
    for message_id, body, version in await tx.all("placed_parts", session_id, since, before):
        parts.setdefault(message_id, []).append(read_part((body, version)))
    rows = await tx.all("placed_messages", session_id, since, before)
    return tuple(
        MessageWithParts(info=decode_message(upcast(version, info)), parts=tuple(parts.get(message_id, ())))
        for message_id, _, info, version in rows
    )


async def model_history(tx: Tx, session_id: SessionId, *, whole: bool = False) -> ModelHistory:
    """Read the history before the last step, which cannot change any more; `whole`: all of it.

    What a summary replaces is not read.
    """
    control = (await require_session(tx, session_id)).control
    step = None if whole else await tx.one("last_step_position", session_id)
    since = AFTER_ALL_POSITIONS if whole else max(step[0], control.summary) if step else 0
    entries = await history_between(tx, session_id, control.tail, before=since)
    shown = await shown_calls(tx, session_id, entries)
    return ModelHistory(entries, shown, since, await _summary_head(tx, control))


async def _summary_head(tx: Tx, control: Control) -> tuple[MessageWithParts, ...]:
    if not control.summary:
        return ()
    (summary,) = await history_between(tx, control.id, control.summary, before=control.summary + 1)
    assert isinstance(summary.info, AssistantMessage)
    return await require_message(tx, summary.info.parent_id), summary


async def shown_calls(
    tx: Tx, session_id: SessionId, entries: tuple[MessageWithParts, ...]
) -> frozenset[PartId]:
    """The tool parts whose calls a request showed as pending: a superset of those among the entries."""
    if not any(isinstance(part, ToolPart) for entry in entries for part in entry.parts):
        return frozenset()
    return frozenset(PartId(row[0]) for row in await tx.all("shown_calls", session_id))


async def messages(
    tx: Tx, session_id: SessionId, *, before: MessageId | None = None, limit: int = 1_000_000
) -> tuple[MessageWithParts, ...]:
    """Read the newest `limit` messages before one, oldest first, in the order in which clients read them."""
    await require_session(tx, session_id)
    rows = await tx.all("messages", session_id, await sort_id_of(tx, before) if before else "~", limit)
    return tuple([await require_message(tx, MessageId(row[0])) for row in reversed(rows)])


async def input_row(tx: Tx, message_id: MessageId) -> InputRow:
    row = await tx.one("input", message_id)
    if row is None:
        raise NotFound("input", message_id)
    return InputRow(*row)


async def count_inputs(tx: Tx, session_id: SessionId, prefix: str) -> int:
    """Count the inputs of a session whose key has a prefix."""
    row = await tx.one("count_inputs", session_id, prefix)
    assert row is not None
    return int(row[0])


async def newest_prompt(tx: Tx, session_id: SessionId) -> MessageId | None:
    """Find the newest promoted prompt of a person."""
    row = await tx.one("newest_prompt", session_id)
    return MessageId(row[0]) if row else None


async def last_call_id(tx: Tx, session_id: SessionId) -> CallId | None:
    row = await tx.one("last_call_id", session_id)
    return CallId(row[0]) if row else None


async def calls(tx: Tx, session_id: SessionId) -> tuple[Call, ...]:
    await require_session(tx, session_id)
    return tuple(decode_call(row) for row in await tx.all("session_calls", session_id))


async def open_calls(tx: Tx, session_id: SessionId) -> tuple[Call, ...]:
    await require_session(tx, session_id)
    return tuple(call for call in await unsettled_calls(tx, session_id) if call.open)


async def asks(tx: Tx, root_id: SessionId | None = None) -> tuple[WaitingCall, ...]:
    """List calls that wait for a person, in one tree or in all; unreadable ones are left out."""
    if root_id is not None:
        await require_session(tx, root_id)
    found: list[WaitingCall] = []
    for row in await (tx.all("tree_asks", root_id) if root_id else tx.all("asks")):
        with suppress(Unreadable):
            call = decode_call(row)
            if call.asking:
                found.append(WaitingCall(call, await lineage(tx, call.session_id)))
    return tuple(found)


async def lineage(tx: Tx, session_id: SessionId) -> tuple[Session, ...]:
    """Read the lineage of a session, root first."""
    info = (await require_session(tx, session_id)).info
    above = await lineage(tx, info.parent_id) if info.parent_id is not None else ()
    return (*above, info)


async def active_sessions(
    tx: Tx, pool: str, *, after: str = "~", limit: int = 500
) -> tuple[ActiveSession, ...]:
    """List sessions of a pool that are ready or running, oldest first."""
    return tuple(ActiveSession(*row) for row in await tx.all("active_sessions", pool, after, limit))


async def sessions_with_work(tx: Tx, pool: str, *, limit: int) -> tuple[SessionId, ...]:
    """List sessions of a pool that are ready or running, also those whose job is queued, oldest first."""
    return tuple(SessionId(row[0]) for row in await tx.all("sessions_with_work", pool, limit))


async def next_due(tx: Tx) -> int | None:
    times = [await _first_time(tx, each) for each in ("next_due", "next_backoff", "next_deadline")]
    return min((time for time in times if time is not None), default=None)


async def due_times(tx: Tx) -> DueTimes:
    """Read when the first call, task, backoff, outgoing webhook and poll of a server are due."""
    return DueTimes(
        call=await _first_time(tx, "next_due"),
        task=await _first_time(tx, "next_deadline"),
        backoff=await _first_time(tx, "next_backoff"),
        delivery=await _first_time(tx, "first_owed"),
        poll=await _first_time(tx, "first_poll"),
    )


async def _first_time(tx: Tx, statement: str) -> int | None:
    row = await tx.one(statement)
    return row[0] if row else None
