"""What the system says to a model: a message of its own, with one text that no person wrote."""

from msgspec import Struct

from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.domain.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.part import TextPart


class Addressee(Struct, frozen=True):
    session_id: SessionId
    agent: str
    model: ModelRef


class Remark(Struct, frozen=True):
    message: UserMessage
    part: TextPart


def remark(to: Addressee, text: str, *, ids: Ids, now: int, message_id: MessageId | None = None) -> Remark:
    """`message_id`: one that was made before, so that it stands before what comes after."""
    message = UserMessage(
        id=message_id or ids.message(),
        session_id=to.session_id,
        time=MessageTime(created=now),
        agent=to.agent,
        model=to.model,
    )
    part = TextPart(id=ids.part(), session_id=to.session_id, message_id=message.id, text=text, synthetic=True)
    return Remark(message, part)
