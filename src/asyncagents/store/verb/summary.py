"""A summary is written: from here on it stands for what came before, and nothing open is forgotten."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call import Call
from asyncagents.domain.codec import decode_message, upcast
from asyncagents.domain.control import Control, Lease, Snapshot
from asyncagents.domain.event import SessionCompacted, SessionError
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.message import AssistantMessage, Message
from asyncagents.domain.part import CompactionPart, TextPart
from asyncagents.domain.remark import Addressee, remark
from asyncagents.domain.shape import encode
from asyncagents.domain.task import Task
from asyncagents.domain.todo import Todo, unfinished
from asyncagents.store.row import (
    SessionRow,
    entry,
    held,
    model_ref,
    put_part,
    request_tokens,
    save,
    say,
    snapshot,
    unsettled,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.claim import charged
from asyncagents.store.verb.read import END
from asyncagents.store.verb.step import StepEnd, close
from asyncagents.store.verb.task import live_tasks_of
from asyncagents.store.verb.todo import decode_todos

LOOK_BACK = 8
"""So many messages of a turn are read at once to tell whether it was at work."""


class Still(Struct, frozen=True, kw_only=True):
    """What a summary must not lose."""

    calls: tuple[Call, ...] = ()
    """Open ones: their results are still to come."""
    todos: tuple[Todo, ...] = ()
    tasks: tuple[Task, ...] = ()
    """Live ones: their ends are still to be told."""
    prompt: str = ""
    """What the person said last, unless it is among what is kept."""


class Summarised(Struct, frozen=True, kw_only=True):
    end: StepEnd
    position: int
    tail_id: MessageId | None
    """The message from which on all are kept; None: none is."""
    note: Callable[[Still], str]
    """Pure: what the model is told beside the summary."""
    note_id: PartId
    go_on: str
    """What the model is told afterwards, if it was at work."""


async def finish_summary(tx: Tx, lease: Lease, done: Summarised) -> Snapshot:
    """Close it. One that failed changes nothing for the model, and ends the turn."""
    row, end = await held(tx, lease), done.end
    reported = encode(end.spent) if end.spent else None
    if not await tx.run("end_request", "done", reported, end.request_id):  # a repetition: it had ended before
        return await snapshot(tx, row)
    info = charged(row.info, end.spent or await request_tokens(tx, end.request_id), end.message.cost)
    await close(tx, end, hidden=False)
    control = replace(row.control.progressed(), compacting=0)
    newest = await _newest(tx, control)
    if end.message.error is not None:
        tx.emit(SessionError(session_id=control.id, error=end.message.error))
        return await snapshot(tx, await save(tx, row, control, info), last=end.message)
    kept = await tx.one("place_of", done.tail_id) if done.tail_id else None
    control = replace(control, summary=done.position, tail=kept[0] if kept else done.position)
    auto = await _annotate(tx, control, done)
    if auto or _at_work(newest):
        control = await _go_on(tx, row, control, done)
    tx.emit(SessionCompacted(session_id=control.id))
    return await snapshot(tx, await save(tx, row, control, info))


async def _annotate(tx: Tx, control: Control, done: Summarised) -> bool:
    """Write beside the request what must not be lost, and from where messages are kept. Was it automatic?"""
    asked = await entry(tx, done.end.message.parent_id)
    auto = False
    for part in asked.parts:
        if isinstance(part, CompactionPart):
            auto = auto or part.auto
            await put_part(tx, replace(part, tail_start_id=done.tail_id))
    if text := done.note(await _still(tx, control)):
        note = TextPart(
            id=done.note_id, session_id=control.id, message_id=asked.info.id, text=text, synthetic=True
        )
        await put_part(tx, note)
    return auto


async def _still(tx: Tx, control: Control) -> Still:
    todos = await tx.one("todos", control.id)
    return Still(
        calls=tuple(call for call in await unsettled(tx, control.id) if call.open),
        todos=unfinished(decode_todos(todos[0])) if todos else (),
        tasks=await live_tasks_of(tx, control.id),
        prompt=await _dropped_prompt(tx, control),
    )


async def _dropped_prompt(tx: Tx, control: Control) -> str:
    """The words of the last thing a person said, if they are not kept anyway."""
    newest = await tx.one("newest_prompt", control.id)
    if newest is None:
        return ""
    place = await tx.one("place_of", newest[0])
    if place is None or place[0] is None or place[0] >= control.tail:
        return ""
    return (await entry(tx, MessageId(newest[0]))).text


async def _newest(tx: Tx, control: Control) -> Message | None:
    """What was said last in this turn, besides wishes for a summary and summaries, however many."""
    before = END
    while rows := await tx.all("placed_before", control.id, before, LOOK_BACK):
        for message_id, before, turn, info, version in rows:  # noqa: B007  the next page begins there
            if turn != control.turn:
                return None
            message = decode_message(upcast(version, info))
            if not await _about_summary(tx, message_id, message):
                return message
    return None


async def _about_summary(tx: Tx, message_id: MessageId, message: Message) -> bool:
    if isinstance(message, AssistantMessage):
        return bool(message.summary)
    return any(isinstance(part, CompactionPart) for part in (await entry(tx, message_id)).parts)


def _at_work(newest: Message | None) -> bool:
    """Whether the turn has something to answer, or to go on with, besides the wish for a summary."""
    match newest:
        case AssistantMessage(finish=finish, error=error):
            return finish == "tool-calls" and error is None
        case _:
            return newest is not None


async def _go_on(tx: Tx, row: SessionRow, control: Control, done: Summarised) -> Control:
    assert row.info.agent is not None and row.info.model is not None, "it was addressed before"
    to = Addressee(control.id, row.info.agent, model_ref(row.info.model))
    return await say(tx, control, remark(to, done.go_on, ids=tx.ids, now=tx.now))
