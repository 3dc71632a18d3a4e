"""Messages as clients see them: role, agent, model and outcome; their content is in parts."""

from typing import Any, Literal, TypeAlias

from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.session import FileDiff, Tokens
from asyncagents.domain.id import MessageId, SessionId, sort_id
from asyncagents.domain.shape import Shape


class ModelRef(Shape, frozen=True, kw_only=True):
    provider_id: str
    model_id: str
    variant: str | None = None


class MessageTime(Shape, frozen=True, kw_only=True):
    created: int
    completed: int | None = None


class MessagePath(Shape, frozen=True, kw_only=True):
    cwd: str
    root: str


class TextFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """The model answers in free text."""


class JsonFormat(Shape, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    """The model answers with JSON that matches the schema."""

    schema: dict[str, Any]
    retry_count: int | None = None


MessageFormat: TypeAlias = TextFormat | JsonFormat


class UserSummary(Shape, frozen=True, kw_only=True):
    diffs: tuple[FileDiff, ...]
    title: str | None = None
    body: str | None = None


class UserMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="user"):
    id: MessageId
    session_id: SessionId
    time: MessageTime
    agent: str
    model: ModelRef
    format: MessageFormat | None = None
    summary: UserSummary | None = None
    system: str | None = None
    tools: dict[str, bool] | None = None

    @property
    def role(self) -> Literal["user"]:
        return "user"


class AssistantMessage(Shape, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """One step of the model; all steps of a turn share `parent_id`, the user's message."""

    id: MessageId
    session_id: SessionId
    parent_id: MessageId
    time: MessageTime
    model_id: str
    provider_id: str
    mode: str
    agent: str
    path: MessagePath
    cost: float
    tokens: Tokens
    error: Failure | None = None
    variant: str | None = None
    summary: bool | None = None
    structured: Any = None
    finish: str | None = None

    @property
    def role(self) -> Literal["assistant"]:
        return "assistant"

    @property
    def model_ref(self) -> ModelRef:
        return ModelRef(provider_id=self.provider_id, model_id=self.model_id, variant=self.variant)


Message: TypeAlias = UserMessage | AssistantMessage


def sort_key(message: Message) -> str:
    """Return the sort id of a message, judged by its id and time alone."""
    return sort_id(message.id, message.time.created, past=True)
