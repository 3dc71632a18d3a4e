"""Ends a turn: answers the prompts it promoted, rests the session, concludes its task."""

from msgspec.structs import replace

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.event import PromptAnswered, SessionUpdated
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Control, Snapshot, is_final
from asyncagents.store.row import SessionRow, last_message, merge_body, save_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.queue import make_room
from asyncagents.store.verb.task_end import conclude_task


async def end_turn(tx: Tx, row: SessionRow, control: Control, info: Session, *, answer: MessageId) -> Control:
    """End a turn with its last step, in one transaction; nothing is unread or open."""
    raw, version = merge_body(row.raw, row.version, info)
    tx.emit(SessionUpdated(session_id=control.id, info=info))
    await answer_turn(tx, control, answer)
    control = control.after_rest(unread=False)
    await save_session(tx, replace(row, info=info, raw=raw, version=version), control, at_rest=True)
    await conclude_task(tx, control, info)
    await make_room(tx, control)
    return control


async def answer_earlier_prompts(tx: Tx, about: Snapshot) -> None:
    """Answer the prompts of this turn with its last step, if unread input needs an answer of its own."""
    if about.answers_earlier and about.step is not None:
        await answer_turn(tx, about.control, about.step.id)


async def answer_before_joining(tx: Tx, control: Control, *, joins: bool) -> None:
    """Answer the prompts of a turn that more input joins, if its last step was meant as their answer."""
    last = await last_message(tx, control) if joins else None
    if isinstance(last, AssistantMessage) and is_final(last):
        await answer_turn(tx, control, last.id)


async def answer_turn(tx: Tx, control: Control, answer: MessageId | None) -> None:
    """Set `answer` as the answer of all prompts that this turn promoted and that have none."""
    if answer is None or not control.in_turn:
        return
    for (message_id,) in await tx.all("unanswered", control.id, control.turn):
        await tx.one("answer_input", answer, await tx.rev(), message_id)
        publish_answer(tx, control.id, message_id, answer)


def publish_answer(tx: Tx, session_id: SessionId, message_id: str, answer: MessageId) -> None:
    tx.emit(PromptAnswered(session_id=session_id, message_id=MessageId(message_id), answer_id=answer))
