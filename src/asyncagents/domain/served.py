"""What a server and its clients say to each other beside the nouns themselves."""

from asyncagents.domain.history import Entry
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.shape import Shape
from asyncagents.domain.status import Status


class Health(Shape, frozen=True, kw_only=True):
    """`uptime` in seconds."""

    status: str
    uptime: float
    version: str
    task_count: int


class SessionState(Shape, frozen=True, kw_only=True):
    """`at_work`: whether any session of its tree neither rests nor waits; `is_run`: whether a process has it.

    `trouble`: what keeps the server from writing work down.
    """

    session: Session
    root_id: SessionId
    status: Status
    at_work: bool
    is_run: bool
    trouble: str | None = None


class Begun(Shape, frozen=True, kw_only=True):
    session: Session
    message_id: MessageId


class Sent(Shape, frozen=True, kw_only=True):
    message_id: MessageId


class Stopped(Shape, frozen=True, kw_only=True):
    """`stopped` false: it is durable, but somebody still stops."""

    stopped: bool


class Withdrawn(Shape, frozen=True, kw_only=True):
    """How many approvals there were."""

    withdrawn: int


class AnswerOf(Shape, frozen=True, kw_only=True):
    """Without `answer` there is none yet."""

    answer: Entry | None = None


class SentFile(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With its content: `url` is a data: URL."""

    mime: str
    url: str
    filename: str | None = None


class Stands(Shape, frozen=True, kw_only=True):
    """Where the feed of changes is."""

    cursor: str
