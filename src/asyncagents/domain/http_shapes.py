"""Request and response shapes of the HTTP API that are not domain objects."""

from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape


class Health(Shape, frozen=True, kw_only=True):
    """`uptime` in seconds."""

    status: str
    uptime: float
    version: str
    task_count: int


class SessionState(Shape, frozen=True, kw_only=True):
    """`at_work`: whether any session of its tree neither rests nor waits; `is_run`: a process runs it.

    `trouble`: why the server cannot write to its store, if so.
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
    """`stopped` false: a run was still stopping when the wait ended; the cancel itself is committed."""

    stopped: bool


class Withdrawn(Shape, frozen=True, kw_only=True):
    """`withdrawn`: the number of approvals withdrawn."""

    withdrawn: int


class AnswerOf(Shape, frozen=True, kw_only=True):
    """The answer to a prompt; left out if there is none yet."""

    answer: Entry | None = None


class SentFile(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with its content: `url` is a data: URL."""

    mime: str
    url: str
    filename: str | None = None


class Stands(Shape, frozen=True, kw_only=True):
    """The current cursor of the change feed."""

    cursor: str
