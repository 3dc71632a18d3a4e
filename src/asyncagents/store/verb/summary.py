"""Closes a summary: the model reads it instead of what came before, with a note of what is still open."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage, Message
from asyncagents.domain.conversation.part import CompactionPart, TextPart
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.conversation.todo import unfinished_todos
from asyncagents.domain.event import SessionCompacted, SessionError
from asyncagents.domain.id import MessageId
from asyncagents.domain.session_state import Claim, Control, Snapshot
from asyncagents.domain.shape import encode
from asyncagents.domain.step import OpenItems, SummaryEnd
from asyncagents.store.row import (
    SessionRow,
    append_system_message,
    claimed_session,
    model_ref,
    put_part,
    request_tokens,
    require_message,
    save_session,
    snapshot,
    unsettled_calls,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.claim import add_usage
from asyncagents.store.verb.read import AFTER_ALL_POSITIONS
from asyncagents.store.verb.step import write_step_end
from asyncagents.store.verb.task import live_tasks_of
from asyncagents.store.verb.todo import decode_todos

LOOK_BACK = 8
"""Messages of a turn that are read at once to find its newest."""


async def finish_summary(tx: Tx, claim: Claim, summary_end: SummaryEnd) -> Snapshot:
    """Close a summary; from here on the model reads it instead of what came before.

    A failed summary changes nothing for the model, and ends the turn.
    """
    row, end = await claimed_session(tx, claim), summary_end.end
    reported = encode(end.known_tokens) if end.known_tokens else None
    if not await tx.run("end_request", "done", reported, end.request_id):  # a repetition: it had ended before
        return await snapshot(tx, row)
    info = add_usage(row.info, end.known_tokens or await request_tokens(tx, end.request_id), end.message.cost)
    await write_step_end(tx, end, hidden=False)
    control = replace(row.control.after_progress(), compacting=0)
    newest = await _newest_message(tx, control)
    if end.message.error is not None:
        tx.emit(SessionError(session_id=control.id, error=end.message.error))
        return await snapshot(tx, await save_session(tx, row, control, info), last=end.message)
    tail_row = await tx.one("place_of", summary_end.tail_id) if summary_end.tail_id else None
    control = replace(
        control, summary=summary_end.position, tail=tail_row[0] if tail_row else summary_end.position
    )
    auto = await _annotate(tx, control, summary_end)
    if auto or _was_working(newest):
        control = await _continue_turn(tx, row, control, summary_end)
    tx.emit(SessionCompacted(session_id=control.id))
    return await snapshot(tx, await save_session(tx, row, control, info))


async def _annotate(tx: Tx, control: Control, summary_end: SummaryEnd) -> bool:
    """Add the note and the start of the tail to the request for the summary. True: it was automatic."""
    asked = await require_message(tx, summary_end.end.message.parent_id)
    auto = False
    for part in asked.parts:
        if isinstance(part, CompactionPart):
            auto = auto or part.auto
            await put_part(tx, replace(part, tail_start_id=summary_end.tail_id))
    if text := summary_end.note(await _open_items(tx, control)):
        note = TextPart(
            id=summary_end.note_id, session_id=control.id, message_id=asked.info.id, text=text, synthetic=True
        )
        await put_part(tx, note)
    return auto


async def _open_items(tx: Tx, control: Control) -> OpenItems:
    todos = await tx.one("todos", control.id)
    return OpenItems(
        calls=tuple(call for call in await unsettled_calls(tx, control.id) if call.open),
        todos=unfinished_todos(decode_todos(todos[0])) if todos else (),
        tasks=await live_tasks_of(tx, control.id),
        prompt=await _dropped_prompt(tx, control),
    )


async def _dropped_prompt(tx: Tx, control: Control) -> str:
    """The text of the last prompt of a person, if it is not in the tail."""
    newest = await tx.one("newest_prompt", control.id)
    if newest is None:
        return ""
    place = await tx.one("place_of", newest[0])
    if place is None or place[0] is None or place[0] >= control.tail:
        return ""
    return (await require_message(tx, MessageId(newest[0]))).text


async def _newest_message(tx: Tx, control: Control) -> Message | None:
    """The newest message of this turn, leaving out summaries and requests for them."""
    before = AFTER_ALL_POSITIONS
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
    return any(isinstance(part, CompactionPart) for part in (await require_message(tx, message_id)).parts)


def _was_working(newest: Message | None) -> bool:
    """Whether the turn has something to answer or to go on with, besides the summary."""
    match newest:
        case AssistantMessage(finish=finish, error=error):
            return finish == "tool-calls" and error is None
        case _:
            return newest is not None


async def _continue_turn(tx: Tx, row: SessionRow, control: Control, summary_end: SummaryEnd) -> Control:
    assert row.info.agent is not None and row.info.model is not None, "a prompt set both"
    target = MessageTarget(control.id, row.info.agent, model_ref(row.info.model))
    return await append_system_message(
        tx, control, build_system_message(target, summary_end.go_on, ids=tx.ids, now=tx.now)
    )
