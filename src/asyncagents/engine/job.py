"""What a model is asked for in one step, and whether the answer leaves room for another."""

from msgspec import Struct

from asyncagents.domain.failure import ContextOverflowError
from asyncagents.domain.message import AssistantMessage
from asyncagents.domain.window import taken
from asyncagents.engine.compaction import Summary
from asyncagents.engine.hook import NO_HOOKS, Hooks
from asyncagents.llm.model import Request


class Job(Struct, frozen=True, kw_only=True):
    """What a model is asked for."""

    request: Request | None
    """None: it cannot be asked, and why not."""
    why_not: str = ""
    last: bool = False
    """No step may follow, so no call runs."""
    room: int | None = None
    """How much the model can be told; None: nobody knows, or cares."""
    shrinks: bool = False
    """A conversation that is too long is summarised."""
    summary: Summary | None = None
    """It is a summary."""
    hooks: Hooks = NO_HOOKS
    """Who has a word in it."""

    def is_full(self, message: AssistantMessage) -> bool:
        """Whether the next step would be too much for the model, or this one was."""
        if message.error is not None:
            return self.shrinks and isinstance(message.error, ContextOverflowError)
        return self.room is not None and taken(message.tokens) >= self.room
