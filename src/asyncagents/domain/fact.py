"""What must commit together with something else travels as a fact; the store applies it there."""

from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.call import Result
from asyncagents.domain.history import Entry
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.message import UserMessage
from asyncagents.domain.part import Part
from asyncagents.domain.session import Session
from asyncagents.domain.task import EndedBy, Task
from asyncagents.domain.todo import Todo

Source: TypeAlias = Literal["person", "system", "compaction", "notice"]
"""Who wants to be answered; or a wish for a summary, which is answered by one; or ends of tasks."""


class Admit(Struct, frozen=True, kw_only=True):
    """Accept input durably. The same key again changes nothing."""

    message: UserMessage
    parts: tuple[Part, ...]
    key: str
    source: Source = "person"
    wakes: bool = True
    """False: it is kept and shown, and read together with the next input that wakes."""
    same_agent: bool = False
    """Nobody chose one: the session's own answers, if it has answered before."""
    same_model: bool = False
    named: bool = False
    """Whoever says it chose the id of the message: it must be the newest of its session."""
    trace: str | None = None
    """Where whoever says it stands in a trace; a turn that it begins goes on there."""
    hash: str | None = None
    """Of what the caller gave under a key of its own; None: the key is ours."""

    @property
    def session_id(self) -> SessionId:
        return SessionId(self.message.session_id)


class Admitted(Struct, frozen=True):
    message_id: MessageId
    new: bool


class Settle(Struct, frozen=True):
    """Give an open call its result."""

    call_id: CallId
    result: Result


class WriteTodos(Struct, frozen=True):
    """Replace a session's todos."""

    session_id: SessionId
    todos: tuple[Todo, ...]


class Spawn(Struct, frozen=True, kw_only=True):
    """A child session, its first input and the task that it is, together with the call that launches it."""

    info: Session
    first: Admit
    task: Task
    history: tuple[Entry, ...] = ()
    """What a fork begins with."""
    deepest: int
    """How deep sessions may be nested below their root."""
    most: int
    """How many tasks its parent may launch."""
    trace: str | None = None
    """Where the call that launches it stands in a trace; the child goes on there."""


class Resume(Struct, frozen=True):
    """A follow-up for a task's child; with a call that its end settles."""

    task_id: SessionId
    follow: Admit
    prompt: str
    call_id: CallId | None = None


class Retrieve(Struct, frozen=True):
    """The result of a task was read: a notice of it would say nothing new."""

    task_id: SessionId
    run: int


class CancelTasks(Struct, frozen=True):
    tasks: tuple[SessionId, ...]
    by: EndedBy


class ClearTasks(Struct, frozen=True):
    """A session's tasks are ended and forgotten."""

    session_id: SessionId


class KeepSecret(Struct, frozen=True):
    """What results of a call are signed with (in), or what is sent when it is settled (out)."""

    session_id: SessionId
    call_id: CallId
    direction: Literal["in", "out"]
    secret: str

    def __repr__(self) -> str:
        return f"KeepSecret({self.call_id!r}, {self.direction!r}, …)"


Fact: TypeAlias = (
    Admit | Settle | WriteTodos | Spawn | Resume | Retrieve | CancelTasks | ClearTasks | KeepSecret
)
