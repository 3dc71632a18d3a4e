"""Sessions on their way from one store to another: the JSON of clients, and beside it what only we know."""

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from asyncagents.domain.call import Call
from asyncagents.domain.codec import UnknownPart
from asyncagents.domain.fact import Source
from asyncagents.domain.id import MessageId
from asyncagents.domain.message import Message
from asyncagents.domain.part import Part
from asyncagents.domain.session import Session
from asyncagents.domain.shape import Shape
from asyncagents.domain.task import Task, TaskEnd
from asyncagents.domain.todo import Todo
from asyncagents.errors import InvalidInput

MARK = "asyncagents"
"""The one key of ours in a session, a message or a part that is exported; other programs pass over it."""
CUT_OFF = "Cut off: the session was exported before this call had a result, and imported elsewhere."
CUT_SHORT = "Cut off: the session was exported while it was at work, and imported elsewhere."
LARGEST = 2**53
"""Numbers above it are no places, turns or times."""

Count: TypeAlias = Annotated[int, Meta(ge=-1, le=LARGEST)]
Version: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def a_name(value: object, kind: str) -> str:
    """An id that is safe as the name of a file, and as a key."""
    if isinstance(value, str) and _NAME.fullmatch(value) and value != "index":
        return value
    shown = repr(value)[:80]
    raise InvalidInput(f"{shown} is no id of a {kind}: letters, digits, _ and - are, up to 128 of them")


class InputMark(Shape, frozen=True, kw_only=True):
    """How a message was admitted."""

    key: str
    state: Literal["queued", "held", "aborted", "promoted"]
    source: Source = "person"
    turn: Count | None = None
    answer_id: MessageId | None = None


class MessageMark(Shape, frozen=True, kw_only=True):
    """Where a message stands in what the model reads; None: nowhere."""

    position: Count | None = None
    turn: Count | None = None
    hidden: bool = False
    input: InputMark | None = None
    version: Version = 1


class PartMark(Shape, frozen=True, kw_only=True):
    """What the part of a call does not say of it."""

    call: dict[str, Any] | None = None
    version: Version = 1


class NoticeMark(Shape, frozen=True, kw_only=True):
    """The end of a task that nobody was told of."""

    end: TaskEnd


class SessionMark(Shape, frozen=True, kw_only=True):
    """Where a session goes on. `summary` and `tail` are places, as messages have them."""

    turn: Count = 0
    in_turn: bool = False
    blocked_turn: Count = 0
    steps: Count = 0
    compacting: Count = 0
    summary: Count = 0
    tail: Count = 0
    crowd: Count | None = None
    """How many of its tree may work at once, if its task was cleared."""
    task: dict[str, Any] | None = None
    notices: tuple[NoticeMark, ...] = ()
    version: Version = 1


class BroughtMessage(Struct, frozen=True, kw_only=True):
    info: Message
    raw: bytes
    mark: MessageMark


class BroughtPart(Struct, frozen=True):
    part: Part | UnknownPart
    raw: bytes
    version: int = 1


class Brought(Struct, frozen=True, kw_only=True):
    """A session as it is imported: nothing of it runs, and only what comes from outside is waited for."""

    info: Session
    raw: bytes
    mark: SessionMark
    messages: tuple[BroughtMessage, ...]
    parts: tuple[BroughtPart, ...]
    calls: tuple[Call, ...] = ()
    """Those that had a row, and those that wait; their parts are rendered from them."""
    todos: tuple[Todo, ...] | None = None
    task: Task | None = None
    cut_off: bool = False
    """The task had not ended, and nobody goes on with it."""
    remarks: tuple[str, ...] = ()
    """What people should know that was not taken over."""
