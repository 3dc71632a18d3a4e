"""Imports a session with all that belongs to it, or nothing."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec

from asyncagents.domain.body import check_names, encode_body
from asyncagents.domain.call.call import Call, render
from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage, sort_key
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.event import MessageUpdated, PartUpdated, SessionCreated, TodoUpdated
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control, session_status
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import Task, TaskEnd, task_end
from asyncagents.domain.transfer.records import ImportedMessage, ImportedPart, ImportOutcome, SessionImport
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.store.row import IDLE, find_session, list_columns, publish_status, put_call, read_part
from asyncagents.store.tx import Tx, Verb
from asyncagents.store.verb.answer_event import publish_ask
from asyncagents.store.verb.arrive import PIECE_ROWS
from asyncagents.store.verb.task import put_task

MAX_DEPTH = 100


async def import_session(tx: Tx, new: SessionImport, *, pool: str) -> ImportOutcome:
    """Write a session that does not exist; an existing one stays. Raises `Conflict` if they differ."""
    if await is_imported(tx, new):
        return "already there"
    control = await _insert_session(tx, new, pool)
    for write in _row_writers(new):
        await write(tx)
    await _complete(tx, new, control)
    return "imported"


async def is_imported(tx: Tx, new: SessionImport) -> bool:
    """Whether the session exists. Raises `Conflict` if it differs, `NotFound` if its parent is missing."""
    if await find_session(tx, new.info.id) is not None:
        await _check_same(tx, new)
        return True
    await _lineage(tx, new)
    return False


def count_rows(new: SessionImport) -> int:
    return len(new.messages) + len(new.parts) + len(new.calls)


def import_pieces(new: SessionImport) -> Iterator[Verb[None]]:
    """Yield verbs that write the rows of a session before its own row, some rows each."""
    rows = _row_writers(new)
    while piece := tuple(islice(rows, PIECE_ROWS)):
        yield partial(_write_all, piece)


async def complete_import(tx: Tx, new: SessionImport, *, pool: str) -> ImportOutcome | None:
    """Write the row of a session whose other rows are written; None: it exists already."""
    if await is_imported(tx, new):
        return None
    await _complete(tx, new, await _insert_session(tx, new, pool))
    return "imported"


def _row_writers(new: SessionImport) -> Iterator[Verb[None]]:
    """Yield verbs for the rows that are only found through their session; none is published before it."""
    for message in new.messages:
        yield partial(_insert_message, message)
    for part in new.parts:
        yield partial(_insert_part, part)
    for call in new.calls:
        if not _is_found_without_session(call):
            yield partial(_insert_call, call)


async def _write_all(rows: Sequence[Verb[None]], tx: Tx) -> None:
    for write in rows:
        await write(tx)


def _is_found_without_session(call: Call) -> bool:
    """Whether queries find a call without its session: an open call, or a pending one."""
    return bool(call.open) or call.later is not None


async def _complete(tx: Tx, new: SessionImport, control: Control) -> None:
    rendered = {call.part_id for call in new.calls}
    tx.emit(SessionCreated(session_id=control.id, info=new.info))
    for message in new.messages:
        tx.emit(MessageUpdated(session_id=message.info.session_id, info=message.info))
    for each in new.parts:
        if each.part.id not in rendered and each.part.session_id is not None:
            tx.emit(PartUpdated(session_id=each.part.session_id, part=each.part, time=tx.now))
    for call in new.calls:
        if _is_found_without_session(call):
            await _insert_call(call, tx)
        tx.emit(PartUpdated(session_id=call.session_id, part=render(call), time=tx.now))
        publish_ask(tx, call)
    await _insert_last_request(tx, new)
    await _insert_related(tx, new)
    shown = _initial_status(control, new)
    if shown != IDLE:
        publish_status(tx, control.id, shown)


def _initial_status(control: Control, new: SessionImport) -> str:
    return encode(session_status(control, tuple(call for call in new.calls if call.open))).decode()


async def _check_same(tx: Tx, new: SessionImport) -> None:
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


async def _check_same_part(tx: Tx, new: ImportedPart, there: str) -> None:
    """Raise `Conflict` unless a part of a user message is the same: those never change."""
    found = await tx.one("part", new.part.id)
    text = getattr(new.part, "text", None)
    if found is None or (text is not None and getattr(read_part(found), "text", None) != text):
        raise Conflict(f"{there}, with other content in {new.part.id}: delete it first, or keep it")


async def _lineage(tx: Tx, new: SessionImport) -> tuple[SessionId, int, str | None]:
    """The root and the depth of a session, and the pool of its parent."""
    if new.info.parent_id is None:
        return new.info.id, 0, None
    found = await tx.one("lineage", new.info.parent_id)
    if found is None:
        raise NotFound("parent session", new.info.parent_id)
    root_id, depth, pool = found
    if depth + 1 > MAX_DEPTH:
        raise InvalidInput(f"session {new.info.id} is nested more than {MAX_DEPTH} deep")
    return root_id, depth + 1, pool


async def _control(tx: Tx, new: SessionImport, pool: str) -> Control:
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


async def _insert_session(tx: Tx, new: SessionImport, pool: str) -> Control:
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
        _initial_status(control, new),
        _check_body(new.raw),
        max(1, new.mark.version),
        new.info.project_id,
        await tx.rev(),
        new.mark.crowd,
        new.info.directory,
        *list_columns(new.info),
    )
    assert added, "the session did not exist"
    return control


def _check_body(raw: bytes) -> bytes:
    """Return the JSON as imported. Raises `InvalidInput` if it nests too deep to be decoded."""
    return encode_body(msgspec.Raw(raw))


async def _insert_message(new: ImportedMessage, tx: Tx) -> None:
    info, mark, rev = new.info, new.mark, await tx.rev()
    columns = info.id, info.session_id, mark.position, mark.turn, mark.hidden
    sorts_by = sort_key(info)
    stored_sort_id = None if sorts_by == info.id else sorts_by
    if not await tx.run(
        "insert_message", *columns, _check_body(new.raw), max(1, mark.version), rev, stored_sort_id
    ):
        raise Conflict(f"message {info.id} exists already, in another session")
    given = mark.input
    if given is not None:
        check_names(given.key, given.answer_id)
        state = "held" if given.state == "queued" else given.state  # an import wakes no session
        admitted = info.id, info.session_id, given.key, rev, state
        await tx.run("import_input", *admitted, given.source, given.turn, given.answer_id, rev)


async def _insert_part(new: ImportedPart, tx: Tx) -> None:
    part, rev = new.part, await tx.rev()
    columns = part.id, part.message_id, part.session_id
    if not await tx.run("import_part", *columns, _check_body(new.raw), new.version, rev):
        raise Conflict(f"part {part.id} exists already, in another session")


async def _insert_call(call: Call, tx: Tx) -> None:
    if await tx.one("call", call.id) is not None:
        raise Conflict(f"call {call.id} exists already, in another session")
    for ask_id in filter(None, (call.ask_id, *call.asked_before)):
        if await tx.one("call_by_ask", ask_id) is not None:
            raise Conflict(f"ask {ask_id} exists already, in another session")
    await put_call(tx, call, publish=False)


async def _insert_last_request(tx: Tx, new: SessionImport) -> None:
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


async def _insert_related(tx: Tx, new: SessionImport) -> None:
    """Insert the todos of a session, its task row, and the notices that it has not read."""
    if new.todos is not None:
        await tx.one("put_todos", new.info.id, encode_body(new.todos), await tx.rev())
        tx.emit(TodoUpdated(session_id=new.info.id, todos=new.todos))
    for notice in new.mark.notices:
        if await tx.one("task", notice.end.id) is not None:
            raise Conflict(f"task {notice.end.id} exists already, in another session")
        await _insert_quiet_notice(tx, new.info.id, notice.end)
    if new.task is not None:
        await _check_no_notice(tx, new.task)
        await put_task(tx, new.task, new=True)
        if new.cut_off and new.info.parent_id is not None:
            await _insert_quiet_notice(tx, new.info.parent_id, task_end(new.task))


async def _check_no_notice(tx: Tx, task: Task) -> None:
    """Raise `Conflict` if a notice exists for a run that has not ended: the run could never end."""
    if await tx.one("task", task.id) is not None:
        raise Conflict(f"task {task.id} exists already")
    if await tx.one("is_told", task.id, task.run + (not task.live)) is not None:
        raise Conflict(f"there is a notice for an end of task {task.id} that has not come yet")


async def _insert_quiet_notice(tx: Tx, session_id: SessionId, end: TaskEnd) -> None:
    """Insert a notice that is promoted with the next input and wakes no session."""
    columns = end.id, end.run, session_id, await tx.rev(), "quiet", True
    await tx.run("import_notice", *columns, encode_body(end))
