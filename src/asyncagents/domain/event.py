"""Events: one shape of properties per event type, and the frame that carries it."""

from typing import Any, ClassVar, Literal, TypeAlias, assert_never

import msgspec

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import DECODE_ERRORS, decode_part, decoder, unreadable_error
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, UnknownPart
from asyncagents.domain.conversation.session import FileDiff, Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import CallId, EventId, MessageId, PartId, PermissionId, QuestionId, SessionId
from asyncagents.domain.shape import RawValue, Shape, encode
from asyncagents.domain.task.view import BackgroundTask


class SessionCreated(Shape, frozen=True, kw_only=True):
    """A session was created."""

    type: ClassVar[str] = "session.created"
    session_id: SessionId
    info: Session


class SessionUpdated(Shape, frozen=True, kw_only=True):
    """A field of a session changed."""

    type: ClassVar[str] = "session.updated"
    session_id: SessionId
    info: Session


class SessionDeleted(Shape, frozen=True, kw_only=True):
    """A session was deleted."""

    type: ClassVar[str] = "session.deleted"
    session_id: SessionId
    info: Session


class SessionStatus(Shape, frozen=True, kw_only=True):
    """The status of a session changed."""

    type: ClassVar[str] = "session.status"
    session_id: SessionId
    status: Status


class SessionIdle(Shape, frozen=True, kw_only=True):
    """A session became idle."""

    type: ClassVar[str] = "session.idle"
    session_id: SessionId


class SessionCompacted(Shape, frozen=True, kw_only=True):
    """A summary was written; it stands for the messages before it."""

    type: ClassVar[str] = "session.compacted"
    session_id: SessionId


class SessionDiff(Shape, frozen=True, kw_only=True):
    """The file changes of a session, without undone ones; sent after a turn, an undo or a redo."""

    type: ClassVar[str] = "session.diff"
    session_id: SessionId
    diff: tuple[FileDiff, ...]


class SessionError(Shape, frozen=True, kw_only=True):
    """A turn of a session failed, or a request to it was refused."""

    type: ClassVar[str] = "session.error"
    session_id: SessionId | None = None
    error: Failure | None = None


class MessageUpdated(Shape, frozen=True, kw_only=True):
    """A message was created or changed; parts have events of their own."""

    type: ClassVar[str] = "message.updated"
    session_id: SessionId
    info: Message


class MessageRemoved(Shape, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.removed"
    session_id: SessionId
    message_id: MessageId


class PartUpdated(Shape, frozen=True, kw_only=True):
    """A part was created or changed. `time`: when the event was published, in ms since the epoch."""

    type: ClassVar[str] = "message.part.updated"
    session_id: SessionId
    part: Part | UnknownPart
    time: int


class PartDelta(Shape, frozen=True, kw_only=True):
    """Text to add to a part's field; `offset` is the length it must have before."""

    type: ClassVar[str] = "message.part.delta"
    session_id: SessionId
    message_id: MessageId
    part_id: PartId
    field: str
    delta: str
    offset: int


class PartRemoved(Shape, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.part.removed"
    session_id: SessionId
    message_id: MessageId
    part_id: PartId


class PermissionAsked(Shape, frozen=True, kw_only=True):
    """A call asks for a permission. In JSON the properties are the request itself."""

    type: ClassVar[str] = "permission.asked"
    request: PermissionRequest

    @property
    def session_id(self) -> SessionId:
        return self.request.session_id


class PermissionReplied(Shape, frozen=True, kw_only=True):
    """An ask for a permission was answered."""

    type: ClassVar[str] = "permission.replied"
    session_id: SessionId
    request_id: PermissionId
    reply: Literal["once", "always", "reject"]


class QuestionAsked(Shape, frozen=True, kw_only=True):
    """A call asks a person questions. In JSON the properties are the request itself."""

    type: ClassVar[str] = "question.asked"
    request: QuestionRequest

    @property
    def session_id(self) -> SessionId:
        return self.request.session_id


class QuestionReplied(Shape, frozen=True, kw_only=True):
    """Questions were answered: one list of answers for each."""

    type: ClassVar[str] = "question.replied"
    session_id: SessionId
    request_id: QuestionId
    answers: tuple[tuple[str, ...], ...]


class QuestionRejected(Shape, frozen=True, kw_only=True):
    """A person rejected the questions of a call."""

    type: ClassVar[str] = "question.rejected"
    session_id: SessionId
    request_id: QuestionId


class TodoUpdated(Shape, frozen=True, kw_only=True):
    """The todos of a session changed. `todos`: the complete current list."""

    type: ClassVar[str] = "todo.updated"
    session_id: SessionId
    todos: tuple[Todo, ...]


class TaskCreated(Shape, frozen=True, kw_only=True):
    """A task was launched. `session_id`: the task's own session."""

    type: ClassVar[str] = "task.created"
    session_id: SessionId
    task: BackgroundTask


class TaskUpdated(Shape, frozen=True, kw_only=True):
    """A task that has not ended changed."""

    type: ClassVar[str] = "task.updated"
    session_id: SessionId
    task: BackgroundTask


class TaskCompleted(Shape, frozen=True, kw_only=True):
    """A task ended with a result."""

    type: ClassVar[str] = "task.completed"
    session_id: SessionId
    task: BackgroundTask


class TaskFailed(Shape, frozen=True, kw_only=True):
    """A task ended with an error."""

    type: ClassVar[str] = "task.error"
    session_id: SessionId
    task: BackgroundTask


class TaskCancelled(Shape, frozen=True, kw_only=True):
    """A task was cancelled."""

    type: ClassVar[str] = "task.cancelled"
    session_id: SessionId
    task: BackgroundTask


class TaskCleared(Shape, frozen=True, kw_only=True):
    """The task was deleted; its session remains."""

    type: ClassVar[str] = "task.cleared"
    session_id: SessionId


class AsyncToolExpiring(Shape, frozen=True, kw_only=True):
    """The deadline of a pending call is near; `timeout`: the deadline, in ms since the epoch."""

    type: ClassVar[str] = "async_tool.expiring"
    session_id: SessionId
    pending_id: CallId
    tool: str
    timeout: int


class CommandExecuted(Shape, frozen=True, kw_only=True):
    """A slash command was answered by `message_id`."""

    type: ClassVar[str] = "command.executed"
    name: str
    session_id: SessionId
    arguments: str
    message_id: MessageId


class PromptAnswered(Shape, frozen=True, kw_only=True):
    """The turn that `message_id` began has ended with `answer_id`."""

    type: ClassVar[str] = "prompt.answered"
    session_id: SessionId
    message_id: MessageId
    answer_id: MessageId


Event: TypeAlias = (
    SessionCreated
    | SessionUpdated
    | SessionDeleted
    | SessionStatus
    | SessionIdle
    | SessionCompacted
    | SessionDiff
    | SessionError
    | MessageUpdated
    | MessageRemoved
    | PartUpdated
    | PartDelta
    | PartRemoved
    | PermissionAsked
    | PermissionReplied
    | QuestionAsked
    | QuestionReplied
    | QuestionRejected
    | TodoUpdated
    | TaskCreated
    | TaskUpdated
    | TaskCompleted
    | TaskFailed
    | TaskCancelled
    | TaskCleared
    | AsyncToolExpiring
    | CommandExecuted
    | PromptAnswered
)
"""Any event of a session."""

_ASK_DATA: dict[Any, Any] = {PermissionAsked: PermissionRequest, QuestionAsked: QuestionRequest}
EVENTS: tuple[tuple[str, Any], ...] = tuple((kind.type, _ASK_DATA.get(kind, kind)) for kind in Event.__args__)
"""Names of all session events and types of their data; that of an ask is the request itself."""


def expiring_event(call: Call) -> AsyncToolExpiring:
    due = call.open.due if call.open else None
    return AsyncToolExpiring(session_id=call.session_id, pending_id=call.id, tool=call.tool, timeout=due or 0)


def task_event(task: BackgroundTask) -> Event:
    """Return the event for the current status of a task."""
    match task.status:
        case "running" | "resumed":
            return TaskUpdated(session_id=task.session_id, task=task)
        case "completed":
            return TaskCompleted(session_id=task.session_id, task=task)
        case "error":
            return TaskFailed(session_id=task.session_id, task=task)
        case "cancelled":
            return TaskCancelled(session_id=task.session_id, task=task)
        case _:
            assert_never(task.status)


class UnknownEvent(RawValue):
    """An event of an unknown type; `raw` holds its properties as received."""

    __slots__ = ("session_id", "type")

    def __init__(self, raw: bytes, *, type: str, session_id: SessionId | None) -> None:
        super().__init__(raw)
        self.type = type
        self.session_id = session_id


class _Frame(msgspec.Struct, frozen=True):
    id: EventId
    type: str
    properties: Any


class _RawFrame(msgspec.Struct, frozen=True):
    id: EventId
    type: str
    properties: msgspec.Raw


class _RawPartUpdated(Shape, frozen=True, kw_only=True):
    session_id: SessionId
    part: msgspec.Raw
    time: int


def encode_event(event_id: EventId, event: Event | UnknownEvent) -> bytes:
    """Encode the frame `{"id", "type", "properties"}`."""
    return encode(_Frame(event_id, event.type, event_properties(event)))


def event_properties(event: Event | UnknownEvent) -> Any:
    """Return what is encoded as the properties of an event: that of an ask is the request itself."""
    return event.request if isinstance(event, PermissionAsked | QuestionAsked) else event


def parse_frame(raw: bytes) -> tuple[EventId, Event | UnknownEvent]:
    """Decode a frame. Raises `Unreadable`; an event of an unknown type is kept."""
    try:
        got = decoder(_RawFrame).decode(raw)
        return got.id, _decode_event(got.type, bytes(got.properties))
    except DECODE_ERRORS as error:
        raise unreadable_error("event", raw, error) from error


def parse_event(type: str, raw: bytes) -> Event | UnknownEvent:
    """Decode an event from its properties. Raises `Unreadable`; an event of an unknown type is kept."""
    try:
        return _decode_event(type, raw)
    except DECODE_ERRORS as error:
        raise unreadable_error("event", raw, error) from error


_PLAIN: dict[str, type[Any]] = {
    kind.type: kind for kind in Event.__args__ if kind not in {PartUpdated, PermissionAsked, QuestionAsked}
}


def _decode_event(type: str, raw: bytes) -> Event | UnknownEvent:
    if type in _PLAIN:
        event: Event = decoder(_PLAIN[type]).decode(raw)
        return event
    match type:
        case PartUpdated.type:
            got = decoder(_RawPartUpdated).decode(raw)
            part = decode_part(bytes(got.part))
            return PartUpdated(session_id=got.session_id, part=part, time=got.time)
        case PermissionAsked.type:
            return PermissionAsked(request=decoder(PermissionRequest).decode(raw))
        case QuestionAsked.type:
            return QuestionAsked(request=decoder(QuestionRequest).decode(raw))
        case _:
            return _decode_unknown_event(type, raw)


def _decode_unknown_event(type: str, raw: bytes) -> UnknownEvent:
    properties = msgspec.json.decode(raw)
    owner = properties.get("sessionID") if isinstance(properties, dict) else None
    return UnknownEvent(raw, type=type, session_id=SessionId(owner) if isinstance(owner, str) else None)
