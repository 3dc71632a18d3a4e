"""Asks of a session: requests for a permission and questions to a person."""

from typing import Any

from asyncagents.domain.id import MessageId, PermissionId, QuestionId, SessionId
from asyncagents.domain.shape import Shape


class ToolRef(Shape, frozen=True, kw_only=True):
    """The call that asks; `call_id` is the provider's name for it."""

    message_id: MessageId
    call_id: str


class PermissionRequest(Shape, frozen=True, kw_only=True):
    """`always`: the patterns, or texts if `exact`, that an answer `always` allows from then on."""

    id: PermissionId
    session_id: SessionId
    permission: str
    patterns: tuple[str, ...]
    metadata: dict[str, Any]
    always: tuple[str, ...]
    exact: bool = False
    tool: ToolRef | None = None


class Option(Shape, frozen=True, kw_only=True):
    """One answer that a person may choose."""

    label: str
    description: str


class Question(Shape, frozen=True, kw_only=True):
    """A question to a person, with options to choose from.

    `multiple`: several options may be chosen. `custom=False`: the answer is one of the options.
    """

    question: str
    header: str
    options: tuple[Option, ...]
    multiple: bool | None = None
    custom: bool | None = None


class QuestionRequest(Shape, frozen=True, kw_only=True):
    id: QuestionId
    session_id: SessionId
    questions: tuple[Question, ...]
    tool: ToolRef | None = None
