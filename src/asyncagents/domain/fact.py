"""Facts: changes that commit together with others; the store applies them in one transaction."""

from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.call.call import Result
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.task.task import EndedBy, Task

InputSource: TypeAlias = Literal["person", "system", "compaction", "notice"]
"""Where input comes from: a person or the runtime, a request for a summary, or ends of tasks."""


class Admit(Struct, frozen=True, kw_only=True):
    """Admit input. Idempotent under `key`."""

    message: UserMessage
    parts: tuple[Part, ...]
    key: str
    source: InputSource = "person"
    wakes: bool = True
    """False: the input is stored and shown, and promoted with the next input that wakes."""
    same_agent: bool = False
    """No agent was chosen: use the session's agent, if it has answered before."""
    same_model: bool = False
    named: bool = False
    """The caller chose the message id: it must be the newest of its session."""
    trace: str | None = None
    """The caller's trace; a turn that this input begins continues it."""
    hash: str | None = None
    """Hash of the content given under the caller's key; None: the key is generated."""

    @property
    def session_id(self) -> SessionId:
        return SessionId(self.message.session_id)


class AdmitResult(Struct, frozen=True):
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
    """Create a child session with its first input and its task, together with the call that launches it."""

    info: Session
    first: Admit
    task: Task
    history: tuple[MessageWithParts, ...] = ()
    """The messages that a fork starts with."""
    deepest: int
    """Max depth of sessions below their root."""
    most: int
    """Max tasks of the parent."""
    trace: str | None = None
    """The trace of the launching call; the child continues it."""


class Resume(Struct, frozen=True):
    """Send a follow-up to a task's child; `call_id`: the call that the end of the run settles."""

    task_id: SessionId
    follow: Admit
    prompt: str
    call_id: CallId | None = None


class Retrieve(Struct, frozen=True):
    """Record that the result of a run was read, so that its notice is not needed."""

    task_id: SessionId
    run: int


class CancelTasks(Struct, frozen=True):
    tasks: tuple[SessionId, ...]
    by: EndedBy


class ClearTasks(Struct, frozen=True):
    """Cancel and delete all tasks of a session."""

    session_id: SessionId


class KeepSecret(Struct, frozen=True):
    """Store the secret that signs results of a call (in) or the webhook sent when it is settled (out)."""

    session_id: SessionId
    call_id: CallId
    direction: Literal["in", "out"]
    secret: str

    def __repr__(self) -> str:
        return f"KeepSecret({self.call_id!r}, {self.direction!r}, …)"


class NewShell(Struct, frozen=True):
    prompt: Admit
    """The message before the call, which the model reads when it is asked next."""
    command: str
    message_id: MessageId
    """The id of the step that holds the call."""


Fact: TypeAlias = (
    Admit | Settle | WriteTodos | Spawn | Resume | Retrieve | CancelTasks | ClearTasks | KeepSecret
)
