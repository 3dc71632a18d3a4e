"""User messages that the runtime writes for the model; a system message has one synthetic text."""

from msgspec import Struct

from asyncagents.domain.conversation.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.id import Ids, MessageId, SessionId


class MessageTarget(Struct, frozen=True):
    session_id: SessionId
    agent: str
    model: ModelRef


class SystemMessage(Struct, frozen=True):
    message: UserMessage
    part: TextPart


def build_user_message(target: MessageTarget, message_id: MessageId, now: int) -> UserMessage:
    """Build a user message of the runtime, without its parts."""
    return UserMessage(
        id=message_id,
        session_id=target.session_id,
        time=MessageTime(created=now),
        agent=target.agent,
        model=target.model,
    )


def build_system_message(
    target: MessageTarget, text: str, *, ids: Ids, now: int, message_id: MessageId | None = None
) -> SystemMessage:
    """Build a system message; `message_id`: an id generated earlier, to sort before later messages."""
    message = build_user_message(target, message_id or ids.message(), now)
    part = TextPart(
        id=ids.part(), session_id=target.session_id, message_id=message.id, text=text, synthetic=True
    )
    return SystemMessage(message, part)
