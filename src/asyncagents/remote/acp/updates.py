"""Convert the updates of an external agent to events of a step."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, cast

from msgspec import ValidationError, convert

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.conversation.todo import Priority, Todo, TodoStatus
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.external.agent import ExternalEvent, ExternalPlan
from asyncagents.llm.model import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from asyncagents.remote.acp.calls import CallLog
from asyncagents.remote.acp.content import block_text
from asyncagents.remote.acp.wire import PlanEntry, PromptUsage, Update

_PRIORITIES = ("high", "medium", "low")
_STATUSES = ("pending", "in_progress", "completed")


class UpdateReader:
    """Reads the updates of one prompt in order. A text ends where something else begins."""

    def __init__(self, calls: CallLog) -> None:
        self._calls = calls
        self._open: tuple[Literal["text", "thought"], str | None] | None = None
        self._parts = 0
        self.cost: float | None = None
        """The cost of the whole session, in US dollars, if the agent has reported it."""
        self.usage: Tokens | None = None
        """The tokens that updates carried, as those of Qwen do, one for each request to its model."""

    def read(self, update: Update) -> Iterator[ExternalEvent]:
        self._add_usage(update)
        match update.session_update:
            case "agent_message_chunk":
                yield from self._add_text("text", update)
            case "agent_thought_chunk":
                yield from self._add_text("thought", update)
            case "tool_call" | "tool_call_update" if update.tool_call_id:
                if not self._calls.knows(update.tool_call_id):
                    yield from self.end()
                yield self._calls.merge(update).as_update()
            case "plan":
                yield ExternalPlan(tuple(_todo(n, each) for n, each in enumerate(update.entries, 1)))
            case "usage_update" if update.cost and update.cost.currency == "USD":
                self.cost = update.cost.amount
            case _:
                pass

    def _add_text(self, kind: Literal["text", "thought"], update: Update) -> Iterator[ModelEvent]:
        text = block_text(update.content)
        if not text:
            return
        if self._open != (kind, update.message_id):
            yield from self.end()
            self._parts += 1
            self._open = kind, update.message_id
            yield TextStart(self._key) if kind == "text" else ReasoningStart(self._key)
        yield TextDelta(self._key, text) if kind == "text" else ReasoningDelta(self._key, text)

    def _add_usage(self, update: Update) -> None:
        carried = update.meta.get("usage") if isinstance(update.meta, dict) else None
        if isinstance(carried, dict):
            with suppress(ValidationError):
                tokens = used_tokens(convert(carried, PromptUsage))
                self.usage = tokens.plus(self.usage or Tokens.zero())

    @property
    def _key(self) -> str:
        return str(self._parts)

    def end(self) -> Iterator[ModelEvent]:
        """End the part that is open."""
        if self._open is not None:
            kind, self._open = self._open[0], None
            yield TextEnd(self._key) if kind == "text" else ReasoningEnd(self._key)


def _todo(number: int, entry: PlanEntry) -> Todo:
    status = entry.status if entry.status in _STATUSES else "pending"
    priority = entry.priority if entry.priority in _PRIORITIES else "medium"
    return Todo(
        id=f"todo_{number}",
        content=replace_surrogates(entry.content),
        status=cast("TodoStatus", status),
        priority=cast("Priority", priority),
    )


def used_tokens(usage: PromptUsage) -> Tokens:
    """Return the tokens of a usage. In that of some agents input and output contain the other kinds."""
    read, write = max(0, usage.cached_read_tokens or 0), max(0, usage.cached_write_tokens or 0)
    thought = max(0, usage.thought_tokens or 0)
    contains = usage.total_tokens == usage.input_tokens + usage.output_tokens
    return Tokens(
        input=max(0, usage.input_tokens - contains * (read + write)),
        output=max(0, usage.output_tokens - contains * thought),
        reasoning=thought,
        cache=CacheTokens(read=read, write=write),
    )
