"""Request and response shapes of the HTTP API that are not domain objects."""

from typing import ClassVar, Literal

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.mcp_server import SessionMcpServer
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


class SessionMcpServerState(Shape, frozen=True, kw_only=True):
    """An MCP server that a session was given. `waiting`: not needed yet, or starting. `why`: what to do.

    `missing`: names of values that are not stored and that the process was not given.
    """

    server: SessionMcpServer
    status: Literal["connected", "disabled", "failed", "waiting"]
    why: str | None = None
    missing: tuple[str, ...] = ()


class BeginResult(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Begun"
    session: Session
    message_id: MessageId


class SendResult(Shape, frozen=True, kw_only=True):
    """`new` false: the key was used before, and this is the message of that time."""

    schema_name: ClassVar[str] = "Sent"
    message_id: MessageId
    new: bool = True


class AbortResult(Shape, frozen=True, kw_only=True):
    """`stopped` false: a run was still stopping when the wait ended; the cancel itself is committed."""

    schema_name: ClassVar[str] = "Stopped"

    stopped: bool


class WithdrawResult(Shape, frozen=True, kw_only=True):
    """`withdrawn`: the number of approvals withdrawn."""

    schema_name: ClassVar[str] = "Withdrawn"

    withdrawn: int


class AnswerResult(Shape, frozen=True, kw_only=True):
    """The answer to a prompt; left out if there is none yet."""

    schema_name: ClassVar[str] = "AnswerOf"

    answer: MessageWithParts | None = None


class SentFile(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with its content: `url` is a data: URL."""

    mime: str
    url: str
    filename: str | None = None


class FeedPosition(Shape, frozen=True, kw_only=True):
    """The current cursor of the change feed."""

    schema_name: ClassVar[str] = "Stands"

    cursor: str
