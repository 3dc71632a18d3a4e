"""Stores the reminders of a step with its input, so that what was sent to the model never changes."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage, Message, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.system_message import MessageTarget, build_user_message
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.step import Reminder, StepInfo
from asyncagents.domain.text import reminder
from asyncagents.store.row import insert_message, put_part, require_message
from asyncagents.store.tx import Tx
from asyncagents.store.verb.todo import decode_todos


async def insert_reminders(
    tx: Tx, control: Control, asked_by: UserMessage | None, reminder: Reminder, *, spoken: int | None
) -> Control:
    """Attach reminders to the newest input, or to a message of their own.

    `spoken`: the position after which a person's prompt was promoted; None: there is none.
    """
    newest = asked_by or await _newest_message(tx, control)
    if asked_by is None and isinstance(newest, UserMessage):
        if not _after_summary(control):
            return control  # the step before this one was interrupted after its reminders were stored
        asked_by = newest
    stepping = StepInfo(agent=newest.agent, number=control.steps + 1)
    texts = reminder.texts(
        stepping if spoken is None else await _after_prompt(tx, control.id, stepping, spoken)
    )
    if not texts:
        return control
    if asked_by is None:
        asked_by = _message(newest, reminder.message_id, tx.now)
        control = replace(control, positions=control.positions + 1)
        await insert_message(tx, asked_by, position=control.positions, turn=control.turn)
    for text in texts:
        await put_part(tx, _reminder(tx, asked_by, text))
    return control


def _after_summary(control: Control) -> bool:
    """Whether the newest message is the one that follows a summary: no step has begun since."""
    return control.positions == control.summary + 1


async def _newest_message(tx: Tx, control: Control) -> Message:
    row = await tx.one("last_message", control.id)
    assert row is not None, "a step needs something to answer"
    return decode_message(upcast(row[1], row[0]))


async def _after_prompt(tx: Tx, session_id: SessionId, stepping: StepInfo, before: int) -> StepInfo:
    last, todos = await tx.one("placed_upto", session_id, before), await tx.one("todos", session_id)
    return replace(
        stepping,
        asked=True,
        agent_before=await _addressed_agent(tx, decode_message(upcast(last[1], last[0]))) if last else None,
        todos=decode_todos(todos[0]) if todos else (),
    )


async def _addressed_agent(tx: Tx, message: Message) -> str:
    """The agent that a message addressed; for a summary, that of its request."""
    if isinstance(message, AssistantMessage) and message.summary:
        return (await require_message(tx, message.parent_id)).info.agent
    return message.agent


def _message(newest: Message, aside_id: MessageId, now: int) -> UserMessage:
    assert isinstance(newest, AssistantMessage), "else reminders were stored before"
    target = MessageTarget(newest.session_id, newest.agent, newest.model_ref)
    return build_user_message(target, aside_id, now)


def _reminder(tx: Tx, message: UserMessage, text: str) -> TextPart:
    return TextPart(
        id=tx.ids.part(),
        session_id=message.session_id,
        message_id=message.id,
        text=reminder(text),
        synthetic=True,
    )
