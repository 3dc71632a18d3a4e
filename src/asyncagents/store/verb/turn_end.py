"""The end of a turn: everyone whose input it took in gets its answer, and what follows from resting."""

from msgspec.structs import replace

from asyncagents.domain.control import Control
from asyncagents.domain.event import PromptAnswered, SessionUpdated
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session import Session
from asyncagents.store.row import SessionRow, merged, save
from asyncagents.store.tx import Tx
from asyncagents.store.verb.queue import make_room
from asyncagents.store.verb.task_end import conclude


async def end_turn(tx: Tx, row: SessionRow, control: Control, info: Session, *, answer: MessageId) -> Control:
    """With its last step, in one transaction: nothing is left to read or to wait for."""
    raw, version = merged(row.raw, row.version, info)
    tx.emit(SessionUpdated(session_id=control.id, info=info))
    await answer_turn(tx, control, answer)
    control = control.rested(unread=False)
    await save(tx, replace(row, info=info, raw=raw, version=version), control, at_rest=True)
    await conclude(tx, control, info)
    await make_room(tx, control)
    return control


async def answer_prompts(tx: Tx, control: Control, answer: MessageId) -> None:
    """Of this turn: the rest of it is about something else."""
    for (message_id,) in await tx.all("answer_prompts", answer, await tx.rev(), control.id, control.turn):
        publish_answer(tx, control.id, message_id, answer)


async def answer_turn(tx: Tx, control: Control, answer: MessageId | None) -> None:
    """Everyone whose input this turn took in gets its last message."""
    if answer is None or not control.in_turn:
        return
    for (message_id,) in await tx.all("unanswered", control.id, control.turn):
        await tx.one("answer_input", answer, await tx.rev(), message_id)
        publish_answer(tx, control.id, message_id, answer)


def publish_answer(tx: Tx, session_id: SessionId, message_id: str, answer: MessageId) -> None:
    tx.emit(PromptAnswered(session_id=session_id, message_id=MessageId(message_id), answer_id=answer))
