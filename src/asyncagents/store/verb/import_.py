"""Imports a session with all that belongs to it, or nothing."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from asyncagents.domain.call.call import Call, render
from asyncagents.domain.control import Control, status
from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage, sort_key
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.event import MessageUpdated, PartUpdated, SessionCreated, TodoUpdated
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import Task, TaskEnd, end_of
from asyncagents.domain.transfer.records import Brought, BroughtMessage, BroughtPart
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.store.body import body, check_names
from asyncagents.store.row import IDLE, find_session, listed, publish_status, put_call, read_part
from asyncagents.store.tx import Tx, Verb
from asyncagents.store.verb.answer_event import asked
from asyncagents.store.verb.arrive import ROWS
from asyncagents.store.verb.task import put_task

Outcome: TypeAlias = Literal["imported", "already there"]


DEEPEST = 100


async def bring(tx: Tx, new: Brought, *, pool: str) -> Outcome:
    """Write a session that does not exist; an existing one stays. Raises `Conflict` if they differ."""
    if await is_there(tx, new):
        return "already there"
    control = await _insert_session(tx, new, pool)
    for write in _rows(new):
        await write(tx)
    await _complete(tx, new, control)
    return "imported"


async def is_there(tx: Tx, new: Brought) -> bool:
    """Whether the session exists. Raises `Conflict` if it differs, `NotFound` if its parent is missing."""
    if await find_session(tx, new.info.id) is not None:
        await _check_same(tx, new)
        return True
    await _lineage(tx, new)
    return False


def count_rows(new: Brought) -> int:
    return len(new.messages) + len(new.parts) + len(new.calls)


def pieces(new: Brought) -> Iterator[Verb[None]]:
    """Yield verbs that write the rows of a session before its own row, some rows each."""
    rows = _rows(new)
    while piece := tuple(islice(rows, ROWS)):
        yield partial(_write_all, piece)


async def complete(tx: Tx, new: Brought, *, pool: str) -> Outcome | None:
    """Write the row of a session whose other rows are written; None: it exists already."""
    if await is_there(tx, new):
        return None
    await _complete(tx, new, await _insert_session(tx, new, pool))
    return "imported"


def _rows(new: Brought) -> Iterator[Verb[None]]:
    """Yield verbs for the rows that are only found through their session; none is published before it."""
    for message in new.messages:
        yield partial(_message, message)
    for part in new.parts:
        yield partial(_part, part)
    for call in new.calls:
        if not _is_looked_for(call):
            yield partial(_call, call)


async def _write_all(rows: Sequence[Verb[None]], tx: Tx) -> None:
    for write in rows:
        await write(tx)


def _is_looked_for(call: Call) -> bool:
    """Whether queries find a call without its session: an open call, or a pending one."""
    return bool(call.open) or call.later is not None


async def _complete(tx: Tx, new: Brought, control: Control) -> None:
    rendered = {call.part_id for call in new.calls}
    tx.emit(SessionCreated(session_id=control.id, info=new.info))
    for message in new.messages:
        tx.emit(MessageUpdated(session_id=message.info.session_id, info=message.info))
    for each in new.parts:
        if each.part.id not in rendered and each.part.session_id is not None:
            tx.emit(PartUpdated(session_id=each.part.session_id, part=each.part, time=tx.now))
    for call in new.calls:
        if _is_looked_for(call):
            await _call(call, tx)
        tx.emit(PartUpdated(session_id=call.session_id, part=render(call), time=tx.now))
        asked(tx, call)
    await _last_step(tx, new)
    await _beside(tx, new)
    shown = _shown(control, new)
    if shown != IDLE:
        publish_status(tx, control.id, shown)


def _shown(control: Control, new: Brought) -> str:
    return encode(status(control, tuple(call for call in new.calls if call.open))).decode()


async def _check_same(tx: Tx, new: Brought) -> None:
    """Raise `Conflict` unless the session holds all that is imported; it may have gone on since."""
    row = await find_session(tx, new.info.id)
    assert row is not None
    there = f"session {new.info.id} exists already"
    if row.info.time.created != new.info.time.created:
        raise Conflict(f"{there}, and is a different one: delete it first, or keep it")
    for message in new.messages:
        found = await tx.one("is_message_of", message.info.id, new.info.id)
        if found is None:
            raise Conflict(f"{there}, without message {message.info.id}: delete it first, or keep it")
        known = decode_message(upcast(found[1], found[0]))
        if (type(known), known.time.created) != (type(message.info), message.info.time.created):
            raise Conflict(f"{there}, with other content in {message.info.id}: delete it first, or keep it")
    asked = {each.info.id for each in new.messages if not isinstance(each.info, AssistantMessage)}
    for part in new.parts:
        if part.part.message_id in asked:
            await _check_same_part(tx, part, there)


async def _check_same_part(tx: Tx, new: BroughtPart, there: str) -> None:
    """Raise `Conflict` unless a part of a user message is the same: those never change."""
    found = await tx.one("part", new.part.id)
    text = getattr(new.part, "text", None)
    if found is None or (text is not None and getattr(read_part(found), "text", None) != text):
        raise Conflict(f"{there}, with other content in {new.part.id}: delete it first, or keep it")


async def _lineage(tx: Tx, new: Brought) -> tuple[SessionId, int, str | None]:
    """The root and the depth of a session, and the pool of its parent."""
    if new.info.parent_id is None:
        return new.info.id, 0, None
    found = await tx.one("lineage", new.info.parent_id)
    if found is None:
        raise NotFound("parent session", new.info.parent_id)
    root_id, depth, pool = found
    if depth + 1 > DEEPEST:
        raise InvalidInput(f"session {new.info.id} is nested more than {DEEPEST} deep")
    return root_id, depth + 1, pool


async def _control(tx: Tx, new: Brought, pool: str) -> Control:
    root_id, depth, pool_above = await _lineage(tx, new)
    return Control(
        new.info.id,
        new.info.parent_id,
        root_id,
        depth,
        pool_above or pool,
        turn=new.mark.turn,
        turn_rev=await tx.rev(),
        in_turn=new.mark.in_turn,
        blocked_turn=new.mark.blocked_turn,
        positions=max((each.mark.position or 0 for each in new.messages), default=0),
        steps=new.mark.steps,
        compacting=new.mark.compacting,
        summary=new.mark.summary,
        tail=new.mark.tail,
    )


async def _insert_session(tx: Tx, new: Brought, pool: str) -> Control:
    control = await _control(tx, new, pool)
    added = await tx.run(
        "import_session",
        control.id,
        control.parent_id,
        control.root_id,
        control.depth,
        control.pool,
        control.turn,
        control.turn_rev,
        control.in_turn,
        control.blocked_turn,
        control.positions,
        control.steps,
        control.compacting,
        control.summary,
        control.tail,
        _shown(control, new),
        _kept(new.raw),
        max(1, new.mark.version),
        new.info.project_id,
        await tx.rev(),
        new.mark.crowd,
        new.info.directory,
        *listed(new.info),
    )
    assert added, "the session did not exist"
    return control


def _kept(raw: bytes) -> bytes:
    """Return the JSON as imported. Raises `InvalidInput` if it nests too deep to be decoded."""
    return body(msgspec.Raw(raw))


async def _message(new: BroughtMessage, tx: Tx) -> None:
    info, mark, rev = new.info, new.mark, await tx.rev()
    columns = info.id, info.session_id, mark.position, mark.turn, mark.hidden
    sorts_by = sort_key(info)
    kept = None if sorts_by == info.id else sorts_by
    if not await tx.run("insert_message", *columns, _kept(new.raw), max(1, mark.version), rev, kept):
        raise Conflict(f"message {info.id} exists already, in another session")
    given = mark.input
    if given is not None:
        check_names(given.key, given.answer_id)
        state = "held" if given.state == "queued" else given.state  # an import wakes no session
        admitted = info.id, info.session_id, given.key, rev, state
        await tx.run("import_input", *admitted, given.source, given.turn, given.answer_id, rev)


async def _part(new: BroughtPart, tx: Tx) -> None:
    part, rev = new.part, await tx.rev()
    columns = part.id, part.message_id, part.session_id
    if not await tx.run("import_part", *columns, _kept(new.raw), new.version, rev):
        raise Conflict(f"part {part.id} exists already, in another session")


async def _call(call: Call, tx: Tx) -> None:
    if await tx.one("call", call.id) is not None:
        raise Conflict(f"call {call.id} exists already, in another session")
    for ask_id in filter(None, (call.ask_id, *call.asked_before)):
        if await tx.one("call_by_ask", ask_id) is not None:
            raise Conflict(f"ask {ask_id} exists already, in another session")
    await put_call(tx, call, publish=False)


async def _last_step(tx: Tx, new: Brought) -> None:
    steps = [
        each for each in new.messages if isinstance(each.info, AssistantMessage) and not each.mark.hidden
    ]
    read = [each for each in steps if each.mark.position is not None]
    if not read:
        return
    last = max(read, key=lambda each: each.mark.position or 0)
    tokens = last.info.tokens if isinstance(last.info, AssistantMessage) else Tokens.zero()
    columns = tx.ids.request(), new.info.id, last.info.id, last.mark.turn or 0
    await tx.run("import_request", *columns, encode(tokens), last.info.time.created)


async def _beside(tx: Tx, new: Brought) -> None:
    """Insert the todos of a session, its task row, and the notices that it has not read."""
    if new.todos is not None:
        await tx.one("put_todos", new.info.id, body(new.todos), await tx.rev())
        tx.emit(TodoUpdated(session_id=new.info.id, todos=new.todos))
    for notice in new.mark.notices:
        if await tx.one("task", notice.end.id) is not None:
            raise Conflict(f"task {notice.end.id} exists already, in another session")
        await _tell_later(tx, new.info.id, notice.end)
    if new.task is not None:
        await _check_not_told(tx, new.task)
        await put_task(tx, new.task, new=True)
        if new.cut_off and new.info.parent_id is not None:
            await _tell_later(tx, new.info.parent_id, end_of(new.task))


async def _check_not_told(tx: Tx, task: Task) -> None:
    """Raise `Conflict` if a notice exists for a run that has not ended: the run could never end."""
    if await tx.one("task", task.id) is not None:
        raise Conflict(f"task {task.id} exists already")
    if await tx.one("is_told", task.id, task.run + (not task.live)) is not None:
        raise Conflict(f"there is a notice for an end of task {task.id} that has not come yet")


async def _tell_later(tx: Tx, session_id: SessionId, end: TaskEnd) -> None:
    """Insert a notice that is promoted with the next input and wakes no session."""
    columns = end.id, end.run, session_id, await tx.rev(), "quiet", True
    await tx.run("import_notice", *columns, body(end))
