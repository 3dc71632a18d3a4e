"""Build a step from its stream: events become parts, and the finished parts become the step's end."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    ABORTED,
    BROKEN_INPUT,
    NEVER_RAN,
    STEP_LIMIT,
    Call,
    Effect,
    Failed,
    Settled,
)
from asyncagents.domain.conversation.failure import (
    Failure,
    MessageAbortedError,
    aborted,
    api,
    content_filter,
    output_length,
    read_failure,
)
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    ReasoningPart,
    StepFinishPart,
    TextPart,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import Ids, PartId, RequestId
from asyncagents.domain.text import whole, whole_in
from asyncagents.engine.step.retry import RetryHint
from asyncagents.engine.step.text_buffer import Growing, NewText, Written
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import (
    CallMade,
    Finish,
    FromModel,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Said,
    StepFinish,
    StepStart,
    StreamError,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    Thought,
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.store.body import body
from asyncagents.store.verb.step import StepEnd

Ending: TypeAlias = Finish | Literal["max-steps"]
NO_FINISH = "The model's stream ended without saying why."


class NewPart(Struct, frozen=True):
    """A part that has begun or ended: to be stored and shown."""

    part: Part


Change: TypeAlias = NewPart | NewText | None


class _Called(Struct):
    part_id: PartId
    tool: str
    input: dict[str, Any] | None = None


class Draft:
    def __init__(self, message: AssistantMessage, request_id: RequestId, ids: Ids, *, turn: int) -> None:
        self.message = message
        self._request_id = request_id
        self._ids = ids
        self._turn = turn
        self._written: list[Growing] = []
        self._texts: dict[str, Growing] = {}
        self._thoughts: dict[str, Growing] = {}
        self._called: dict[str, _Called] = {}
        self._finish: StepFinish | None = None
        self._failure: Failure | None = None
        self.retry_hint = RetryHint()

    @property
    def said(self) -> bool:
        """Whether listeners got any part of it."""
        return bool(self._written or self._called)

    @property
    def spoke(self) -> bool:
        """Whether a text part has any characters."""
        return any(text.length and isinstance(text.part(), TextPart) for text in self._written)

    @property
    def _has_text(self) -> bool:
        """Whether a text part has more than whitespace."""
        parts = (text.part() for text in self._written)
        return any(isinstance(part, TextPart) and part.text.strip() for part in parts)

    @property
    def heard(self) -> tuple[StepFinish | None, Failure | None]:
        """The finish and the failure that the provider reported."""
        return self._finish, self._failure

    def told(self) -> FromModel:
        """Return the whole step as a message of a request."""
        written = (text.part() for text in self._written)
        texts = [Said(each.text) if isinstance(each, TextPart) else Thought(each.text) for each in written]
        calls = [CallMade(key, each.tool, each.input or {}) for key, each in self._called.items()]
        return FromModel((*texts, *calls))

    def take(self, event: ModelEvent, now: int) -> Change:  # noqa: C901  one arm for each event
        """Apply one event of the stream; return the change that listeners get."""
        match event:
            case TextDelta(key, text):
                return self._texts[key].add(whole(text)) if text else None
            case ReasoningDelta(key, text):
                return self._thoughts[key].add(whole(text)) if text else None
            case TextStart(key):
                return self._open(TextPart, self._texts, key, now)
            case ReasoningStart(key):
                return self._open(ReasoningPart, self._thoughts, key, now)
            case TextEnd(key):
                return self._close(self._texts[key], now)
            case ReasoningEnd(key, metadata):
                return self._close(self._thoughts[key], now, _storable(whole_in(metadata or {})) or None)
            case ToolCallStart(key, tool):
                return self._call(key, tool)
            case ToolCallReady(key, tool, given):
                change = self._call(key, tool)
                self._called[key].input = _storable(given)
                return change
            case StepFinish():
                self._finish = event
            case StreamError(failure, retry_after, retries):
                self.fail(failure)
                self.retry_hint = RetryHint(retry_after, retries)
            case StreamStart() | StepStart() | StreamFinish():
                pass
            case _:
                assert_never(event)
        return None

    def _open(self, kind: type[Written], among: dict[str, Growing], key: str, now: int) -> NewPart:
        """Open a part under a key. A key may be used again: its earlier part is kept."""
        part = kind(
            id=self._ids.part(),
            session_id=self.message.session_id,
            message_id=self.message.id,
            text="",
            time=PartTime(start=now),
        )
        among[key] = Growing(part)
        self._written.append(among[key])
        return NewPart(part)

    def _close(self, text: Growing, now: int, metadata: dict[str, Any] | None = None) -> NewPart:
        text.close(now, metadata)
        return NewPart(text.save())

    def _call(self, key: str, tool: str) -> NewPart | None:
        if key in self._called:
            return None
        called = self._called[key] = _Called(self._ids.part(), whole(tool))
        return NewPart(
            ToolPart(
                id=called.part_id,
                session_id=self.message.session_id,
                message_id=self.message.id,
                call_id=whole(key),
                tool=called.tool,
                state=ToolPending(input={}, raw=""),
            )
        )

    def ending(self, event: ModelEvent) -> TextPart | None:
        """Return the text part that this event ends, as it will be stored; None: it ends none."""
        return self._texts[event.id].trimmed() if isinstance(event, TextEnd) else None

    def left_open(self) -> list[TextPart]:
        """Return the text parts that the stream has not ended; they end with the step."""
        parts = (text.trimmed() for text in self._written if not text.closed)
        return [part for part in parts if part is not None]

    def growing(self) -> list[Written]:
        """Return the parts that the stream has not ended, as they are now."""
        return [text.part() for text in self._written if not text.closed]

    def rewrite(self, part_id: PartId, text: str, *, continues: bool = False) -> None:
        """Replace the streamed text of a part; `continues`: the new text asks for another step."""
        for each in self._written:
            if each.id == part_id:
                each.rewrite(whole(text))
                each.continues = continues

    @property
    def continues(self) -> bool:
        """Whether a note at the end of the last text asks for another step."""
        texts = [each for each in self._written if isinstance(each.part(), TextPart)]
        return bool(texts) and texts[-1].continues

    def unsaved(self) -> tuple[Part, ...]:
        """Return the parts with text that is not stored yet, and mark them as saved."""
        return tuple(text.save() for text in self._written if not text.clean)

    @property
    def dirty(self) -> bool:
        return any(not text.clean for text in self._written)

    def fail(self, failure: Failure) -> None:
        self._failure = _mended(failure)

    def fail_unless_failed(self, failure: Failure) -> None:
        if self._failure is None:
            self.fail(failure)

    def abort(self) -> None:
        self._failure = aborted()

    def end(self, now: int, effects: Mapping[str, Effect], *, last: bool = False) -> StepEnd:
        """Close all parts and build the step's end, with its calls requested or settled as errors.

        `last`: no step may follow, so no call runs.
        """
        for text in self._written:
            if not text.closed:
                text.close(now)
        finish, failure = self._verdict(last=last)
        tokens = self._finish.tokens if self._finish else None
        cost = _dollars(self._finish.cost) if self._finish else 0.0
        message = replace(
            self.message,
            finish=finish,
            error=failure,
            tokens=tokens or Tokens.zero(),
            cost=cost,
            time=replace(self.message.time, completed=now),
        )
        parts: list[Part] = list(self.unsaved())
        if finish is not None:
            parts.append(self._step_finish(finish, cost, tokens))
        return StepEnd(
            request_id=self._request_id,
            message=message,
            parts=tuple(parts),
            said=self.said,
            calls=self._calls(finish, failure, now, effects),
            tokens=tokens,
        )

    def _verdict(self, *, last: bool) -> tuple[Ending | None, Failure | None]:
        """Return how the step ended, and why it failed if it did."""
        finish, failure = self._how()
        return ("max-steps", None) if last and finish == "tool-calls" else (finish, failure)

    def _how(self) -> tuple[Finish | None, Failure | None]:
        if isinstance(self._failure, MessageAbortedError):
            return None, self._failure
        if self._failure is not None:
            return "error", self._failure
        complete = [c for c in self._called.values() if c.input is not None]
        match self._finish.finish if self._finish else "unknown":
            case "tool-calls" if self._called:  # also calls with broken arguments: the model reads the error
                return "tool-calls", None
            case "stop" | "tool-calls":
                return "tool-calls" if complete else "stop", None
            case "length":
                return "length", None if self._called or self._has_text else output_length()
            case "content-filter":
                return "content-filter", content_filter("The provider's filter stopped this answer.")
            case "error":
                return "error", api("The provider reported an error.", is_retryable=True)
            case _:  # also a finish that is not in the type
                return "unknown", api(NO_FINISH, is_retryable=True)

    def _step_finish(self, finish: Ending, cost: float, tokens: Tokens | None) -> StepFinishPart:
        return StepFinishPart(
            id=self._ids.part(),
            session_id=self.message.session_id,
            message_id=self.message.id,
            reason=finish,
            cost=cost,
            tokens=tokens or Tokens.zero(),
        )

    def _calls(
        self, finish: Ending | None, failure: Failure | None, now: int, effects: Mapping[str, Effect]
    ) -> tuple[Call, ...]:
        never = Settled(Failed(_why_not(finish, failure)), now)
        calls = []
        for key, called in self._called.items():
            call = Call(
                id=self._ids.call(),
                session_id=self.message.session_id,
                message_id=self.message.id,
                part_id=called.part_id,
                call_id=whole(key),
                tool=called.tool,
                input=called.input or {},
                turn=self._turn,
                created=now,
                agent=self.message.agent,
                effect=effects.get(called.tool, "once"),
            )
            runs = finish == "tool-calls" and called.input is not None
            calls.append(call if runs else call.to(never))
        return tuple(calls)


def _why_not(finish: Ending | None, failure: Failure | None) -> str:
    match finish:
        case "tool-calls":
            return BROKEN_INPUT
        case "max-steps":
            return STEP_LIMIT
        case _:
            return ABORTED if isinstance(failure, MessageAbortedError) else NEVER_RAN


def _mended(failure: Failure) -> Failure:
    """Replace unpaired surrogates in a failure that could not be stored with them."""
    try:
        body(failure)
    except InvalidInput:
        return read_failure(whole_in(msgspec.to_builtins(failure)))
    return failure


def _dollars(cost: float) -> float:
    """Return a finite, non-negative cost, else 0: infinity would make the session unreadable."""
    return cost if isfinite(cost) and cost >= 0 else 0.0


def _storable(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return arguments that can be stored; None if they cannot: the call is stored as one that never ran."""
    try:
        body([[given]])  # a part holds the arguments two levels deep
    except InvalidInput:
        return None
    return given
