"""Records of export and import: client JSON, with marks for what only asyncagents stores."""

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import InputSource
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.domain.task.task import Task, TaskEnd
from asyncagents.errors import InvalidInput

MARK_KEY = "asyncagents"
"""The key of our mark in an exported session, message or part; other programs ignore it."""
CALL_CUT_OFF = "Cut off: the session was exported before this call had a result, and imported elsewhere."
SESSION_CUT_OFF = "Cut off: the session was exported while it was at work, and imported elsewhere."
LARGEST = 2**53
"""The largest valid position, turn or time."""

Count: TypeAlias = Annotated[int, Meta(ge=-1, le=LARGEST)]
Version: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
ImportOutcome: TypeAlias = Literal["imported", "already there"]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def check_id(value: object, kind: str) -> str:
    """Return an id that is safe as a file name and as a key. Raises `InvalidInput` for others."""
    if isinstance(value, str) and _NAME.fullmatch(value) and value != "index":
        return value
    shown = repr(value)[:80]
    raise InvalidInput(f"{shown} is not a valid {kind} id: expected up to 128 letters, digits, _ and -")


class InputMark(Shape, frozen=True, kw_only=True):
    """How a message was admitted."""

    key: str
    state: Literal["queued", "held", "aborted", "promoted"]
    source: InputSource = "person"
    turn: Count | None = None
    answer_id: MessageId | None = None


class MessageMark(Shape, frozen=True, kw_only=True):
    """The position of a message in what the model reads; None: the model does not read it."""

    position: Count | None = None
    turn: Count | None = None
    hidden: bool = False
    input: InputMark | None = None
    version: Version = 1


class PartMark(Shape, frozen=True, kw_only=True):
    """The data of a call that its part does not hold."""

    call: dict[str, Any] | None = None
    version: Version = 1


class NoticeMark(Shape, frozen=True, kw_only=True):
    """The end of a run whose notice was not promoted yet."""

    end: TaskEnd


class SessionMark(Shape, frozen=True, kw_only=True):
    """Where a session continues. `summary` and `tail` are positions of messages."""

    turn: Count = 0
    in_turn: bool = False
    blocked_turn: Count = 0
    steps: Count = 0
    compacting: Count = 0
    summary: Count = 0
    tail: Count = 0
    crowd: Count | None = None
    """Max sessions of its tree that work at once, if its task was cleared."""
    task: dict[str, Any] | None = None
    notices: tuple[NoticeMark, ...] = ()
    version: Version = 1


class ImportedMessage(Struct, frozen=True, kw_only=True):
    info: Message
    raw: bytes
    mark: MessageMark


class ImportedPart(Struct, frozen=True):
    part: Part | UnknownPart
    raw: bytes
    version: int = 1


class SessionImport(Struct, frozen=True, kw_only=True):
    """A session to import: no step or tool runs, and its open calls wait for results from outside."""

    info: Session
    raw: bytes
    mark: SessionMark
    messages: tuple[ImportedMessage, ...]
    parts: tuple[ImportedPart, ...]
    calls: tuple[Call, ...] = ()
    """Calls that had a row, and pending ones; their parts are rendered from them."""
    todos: tuple[Todo, ...] | None = None
    task: Task | None = None
    cut_off: bool = False
    """Whether the task was live at the export and is cancelled by the import."""
    remarks: tuple[str, ...] = ()
    """Notes for people on what was not imported."""


class ExportedSession(Struct, frozen=True):
    """A session for an export; `raw`: its JSON as stored."""

    id: SessionId
    raw: bytes
    mark: SessionMark
    todos: bytes | None


class ExportedPart(Struct, frozen=True):
    id: str
    raw: bytes
    mark: PartMark
    call: Call | None


class ExportedMessage(Struct, frozen=True):
    """A message for an export; the next piece begins after its `sort_id`."""

    id: MessageId
    sort_id: str
    raw: bytes
    mark: MessageMark
    parts: tuple[ExportedPart, ...]
