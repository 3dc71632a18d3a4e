"""The interface to external agents: a step in, a stream of events out."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.external_session import ExternalSession
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.tool import Ask
from asyncagents.llm.model import ModelEvent, UserTurn

EXTERNAL_PROVIDER = "acp"
"""The provider in messages of external agents; the model is the name of the agent."""
EXTERNAL_LANE = ModelRef(provider_id=EXTERNAL_PROVIDER, model_id="")
"""Stands for all external agents where slots of models are counted."""

CallStatus: TypeAlias = Literal["pending", "running", "completed", "failed"]
AskVerdict: TypeAlias = Literal["allow", "reject", "cancel"]


class ExternalInput(Struct, frozen=True, kw_only=True):
    """What a step sends to its external agent."""

    unsent: tuple[UserTurn, ...]
    """Input that was not sent yet."""
    again: tuple[UserTurn, ...] = ()
    """The prompt that was under way when a process stopped."""
    newest: MessageId
    """The newest message of the input."""
    after: MessageId | None = None
    """The message before the input that was not sent yet; None: the conversation begins with it."""
    transcript: str = ""
    """The conversation before the input, for an external session that does not know it."""
    partial: str = ""
    """The text of the step that was under way when a process stopped."""


class ExternalStep(Struct, frozen=True, kw_only=True):
    """A step that an external agent works on."""

    session_id: SessionId
    step_id: MessageId
    agent: str
    backend: AcpBackend
    directory: str
    input: ExternalInput
    instructions: str = ""
    """Text before the first prompt of an external session."""
    known: ExternalSession | None = None
    """The external session of the session; None: there is none yet."""
    read_only: bool = False
    """Whether the program must not change the project."""


class ExternalSessionUpdate(Struct, frozen=True):
    """A row to store before the stream goes on: the prompt is sent after it."""

    session: ExternalSession


class ExternalCallUpdate(Struct, frozen=True, kw_only=True):
    """All that an external agent has shown of one of its calls."""

    key: str
    """The agent's own id of the call."""
    tool: str
    status: CallStatus
    title: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


class ExternalAsk(Struct, frozen=True):
    """A request of an external agent for a permission, which rules or a person decide."""

    call: ExternalCallUpdate
    asks: tuple[Ask, ...]
    respond: Callable[[AskVerdict], None]
    """Must be called once; a second call does nothing."""


class ExternalPlan(Struct, frozen=True):
    """The todos of an external agent."""

    todos: tuple[Todo, ...]


ExternalEvent: TypeAlias = (
    ModelEvent | ExternalSessionUpdate | ExternalCallUpdate | ExternalAsk | ExternalPlan
)


class ExternalAgents(Protocol):
    """Runs the programs of external agents."""

    def stream(self, step: ExternalStep) -> AsyncGenerator[ExternalEvent, None]:
        """Yield the events of one step; closing the generator ends the program and all that it started.

        A failure of the program is a `StreamError` event, never an exception.
        """
        ...
