"""The request of one step, and whether its answer leaves room for another."""

from msgspec import Struct

from asyncagents.domain.conversation.failure import ContextOverflowError
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.window import tokens_used
from asyncagents.engine.external.agent import ExternalStep
from asyncagents.engine.step.compaction import SummaryRequest
from asyncagents.engine.workplace.hooks import NO_HOOKS, Hooks
from asyncagents.llm.model import ChatRequest


class StepRequest(Struct, frozen=True, kw_only=True):
    """The request of one step and how to handle its answer."""

    request: ChatRequest | None
    """None if the model cannot be asked; `why_not` says why."""
    why_not: str = ""
    last: bool = False
    """Whether no step may follow, so that no call runs."""
    room: int | None = None
    """Tokens at which a summary is wanted; None: unknown, or summaries are off."""
    shrinks: bool = False
    """Whether a conversation that is too long is summarised."""
    summary: SummaryRequest | None = None
    """Given if the step writes a summary."""
    external: ExternalStep | None = None
    """Given if an external agent works instead of a model."""
    hooks: Hooks = NO_HOOKS
    """Hooks of the directory."""

    def is_full(self, message: AssistantMessage) -> bool:
        """Whether the step exceeds the room, or was refused because the request was too long."""
        if message.error is not None:
            return self.shrinks and isinstance(message.error, ContextOverflowError)
        return self.room is not None and tokens_used(message.tokens) >= self.room
