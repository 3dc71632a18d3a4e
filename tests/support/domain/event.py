"""Events and messages of one session, in few words."""

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.message import (
    AssistantMessage,
    Message,
    MessagePath,
    MessageTime,
    ModelRef,
    UserMessage,
)
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    ReasoningPart,
    TextPart,
)
from asyncagents.domain.conversation.session import Session, SessionTime, Tokens
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
)
from asyncagents.domain.id import MessageId, PartId, SessionId

SESSION = SessionId("ses_1")
MODEL = ModelRef(provider_id="local", model_id="m")


def user_message(id: str) -> UserMessage:
    return UserMessage(
        id=MessageId(id), session_id=SESSION, time=MessageTime(created=1), agent="build", model=MODEL
    )


def step(id: str, *, done: bool = False, cut: bool = False) -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(id),
        session_id=SESSION,
        parent_id=MessageId("msg_0"),
        time=MessageTime(created=1, completed=2 if done or cut else None),
        model_id="m",
        provider_id="local",
        mode="build",
        agent="build",
        path=MessagePath(cwd="/", root="/"),
        cost=0,
        tokens=Tokens.zero(),
        error=unknown_error("cut off") if cut else None,
    )


def text(message_id: str, words: str, *, id: str = "prt_1", synthetic: bool | None = None) -> TextPart:
    return TextPart(
        id=PartId(id), session_id=SESSION, message_id=MessageId(message_id), text=words, synthetic=synthetic
    )


def reasoning_part(message_id: str, words: str) -> ReasoningPart:
    return ReasoningPart(
        id=PartId("prt_r"),
        session_id=SESSION,
        message_id=MessageId(message_id),
        text=words,
        time=PartTime(start=1),
    )


def update_event(what: Message | Part | UnknownPart, *, session_id: SessionId = SESSION) -> Event:
    if isinstance(what, UserMessage | AssistantMessage):
        return MessageUpdated(session_id=session_id, info=what)
    return PartUpdated(session_id=session_id, part=what, time=3)


def delta(words: str, offset: int, *, id: str = "prt_1", message_id: str = "msg_2") -> PartDelta:
    return PartDelta(
        session_id=SESSION,
        message_id=MessageId(message_id),
        part_id=PartId(id),
        field="text",
        delta=words,
        offset=offset,
    )


def entry(info: Message, *parts: Part) -> MessageWithParts:
    return MessageWithParts(info=info, parts=parts)


def session(id: str, title: str, *, parent_id: str | None = None, agent: str | None = None) -> Session:
    return Session(
        id=SessionId(id),
        slug="calm-river",
        project_id="p",
        directory="/",
        title=title,
        version="1",
        time=SessionTime(created=1, updated=1),
        parent_id=SessionId(parent_id) if parent_id else None,
        agent=agent,
    )
