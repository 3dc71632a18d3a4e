"""Build a step from its stream: events become parts, and the finished parts become the step's end."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.body import encode_body
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
    aborted_error,
    api_error,
    content_filter_error,
    output_length_error,
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
from asyncagents.domain.step import StepEnd
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.engine.step.retry import RetryHint
from asyncagents.engine.step.text_buffer import NewText, StreamedPart, TextBuffer
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import (
    Finish,
    ModelEvent,
    ModelTurn,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StepStart,
    StreamError,
    StreamFinish,
    StreamStart,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallReady,
    ToolCallStart,
)

StepFinishReason: TypeAlias = Finish | Literal["max-steps"]
NO_FINISH = "The model's stream ended without saying why."


class NewPart(Struct, frozen=True):
    """A part that has begun or ended: to be stored and shown."""

    part: Part


DraftChange: TypeAlias = NewPart | NewText | None


class _DraftCall(Struct):
    part_id: PartId
    tool: str
    input: dict[str, Any] | None = None


class Draft:
    def __init__(self, message: AssistantMessage, request_id: RequestId, ids: Ids, *, turn: int) -> None:
        self.message = message
        self._request_id = request_id
        self._ids = ids
        self._turn = turn
        self._buffers: list[TextBuffer] = []
        self._texts: dict[str, TextBuffer] = {}
        self._reasoning: dict[str, TextBuffer] = {}
        self._draft_calls: dict[str, _DraftCall] = {}
        self._finish: StepFinish | None = None
        self._failure: Failure | None = None
        self.retry_hint = RetryHint()

    @property
    def is_shown(self) -> bool:
        """Whether listeners got any part of it."""
        return bool(self._buffers or self._draft_calls)

    @property
    def has_text(self) -> bool:
        """Whether a text part has any characters."""
        return any(text.length and isinstance(text.part(), TextPart) for text in self._buffers)

    @property
    def _has_visible_text(self) -> bool:
        """Whether a text part has more than whitespace."""
        parts = (text.part() for text in self._buffers)
        return any(isinstance(part, TextPart) and part.text.strip() for part in parts)

    @property
    def outcome(self) -> tuple[StepFinish | None, Failure | None]:
        """The finish and the failure that the provider reported."""
        return self._finish, self._failure

    def as_message(self) -> ModelTurn:
        """Return the whole step as a message of a request."""
        written = (text.part() for text in self._buffers)
        texts = [
            TextBlock(each.text) if isinstance(each, TextPart) else ThinkingBlock(each.text)
            for each in written
        ]
        calls = [ToolCallBlock(key, each.tool, each.input or {}) for key, each in self._draft_calls.items()]
        return ModelTurn((*texts, *calls))

    def apply_event(self, event: ModelEvent, now: int) -> DraftChange:  # noqa: C901  one arm for each event
        """Apply one event of the stream; return the change that listeners get."""
        match event:
            case TextDelta(key, text):
                return self._texts[key].add(replace_surrogates(text)) if text else None
            case ReasoningDelta(key, text):
                return self._reasoning[key].add(replace_surrogates(text)) if text else None
            case TextStart(key):
                return self._open_part(TextPart, self._texts, key, now)
            case ReasoningStart(key):
                return self._open_part(ReasoningPart, self._reasoning, key, now)
            case TextEnd(key):
                return self._close_part(self._texts[key], now)
            case ReasoningEnd(key, metadata):
                return self._close_part(
                    self._reasoning[key], now, _storable_input(replace_surrogates_in(metadata or {})) or None
                )
            case ToolCallStart(key, tool):
                return self._add_call(key, tool)
            case ToolCallReady(key, tool, given):
                change = self._add_call(key, tool)
                self._draft_calls[key].input = _storable_input(given)
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

    def _open_part(
        self, kind: type[StreamedPart], among: dict[str, TextBuffer], key: str, now: int
    ) -> NewPart:
        """Open a part under a key. A key may be used again: its earlier part is kept."""
        part = kind(
            id=self._ids.part(),
            session_id=self.message.session_id,
            message_id=self.message.id,
            text="",
            time=PartTime(start=now),
        )
        among[key] = TextBuffer(part)
        self._buffers.append(among[key])
        return NewPart(part)

    def _close_part(self, text: TextBuffer, now: int, metadata: dict[str, Any] | None = None) -> NewPart:
        text.close(now, metadata)
        return NewPart(text.save())

    def _add_call(self, key: str, tool: str) -> NewPart | None:
        if key in self._draft_calls:
            return None
        called = self._draft_calls[key] = _DraftCall(self._ids.part(), replace_surrogates(tool))
        return NewPart(
            ToolPart(
                id=called.part_id,
                session_id=self.message.session_id,
                message_id=self.message.id,
                call_id=replace_surrogates(key),
                tool=called.tool,
                state=ToolPending(input={}, raw=""),
            )
        )

    def ending_text(self, event: ModelEvent) -> TextPart | None:
        """Return the text part that this event ends, as it will be stored; None: it ends none."""
        return self._texts[event.id].trimmed_part() if isinstance(event, TextEnd) else None

    def open_texts(self) -> list[TextPart]:
        """Return the text parts that the stream has not ended; they end with the step."""
        parts = (text.trimmed_part() for text in self._buffers if not text.is_closed)
        return [part for part in parts if part is not None]

    def open_parts(self) -> list[StreamedPart]:
        """Return the parts that the stream has not ended, as they are now."""
        return [text.part() for text in self._buffers if not text.is_closed]

    def rewrite(self, part_id: PartId, text: str, *, continues: bool = False) -> None:
        """Replace the streamed text of a part; `continues`: the new text asks for another step."""
        for each in self._buffers:
            if each.id == part_id:
                each.rewrite(replace_surrogates(text))
                each.continues = continues

    @property
    def continues(self) -> bool:
        """Whether a note at the end of the last text asks for another step."""
        texts = [each for each in self._buffers if isinstance(each.part(), TextPart)]
        return bool(texts) and texts[-1].continues

    def take_unsaved_parts(self) -> tuple[Part, ...]:
        """Return the parts with text that is not stored yet, and mark them as saved."""
        return tuple(text.save() for text in self._buffers if not text.clean)

    @property
    def is_dirty(self) -> bool:
        return any(not text.clean for text in self._buffers)

    def fail(self, failure: Failure) -> None:
        self._failure = _storable_failure(failure)

    def fail_unless_failed(self, failure: Failure) -> None:
        if self._failure is None:
            self.fail(failure)

    def abort(self) -> None:
        self._failure = aborted_error()

    def end(self, now: int, effects: Mapping[str, Effect], *, last: bool = False) -> StepEnd:
        """Close all parts and build the step's end, with its calls requested or settled as errors.

        `last`: no step may follow, so no call runs.
        """
        for text in self._buffers:
            if not text.is_closed:
                text.close(now)
        finish, failure = self._verdict(last=last)
        tokens = self._finish.tokens if self._finish else None
        cost = _valid_cost(self._finish.cost) if self._finish else 0.0
        message = replace(
            self.message,
            finish=finish,
            error=failure,
            tokens=tokens or Tokens.zero(),
            cost=cost,
            time=replace(self.message.time, completed=now),
        )
        parts: list[Part] = list(self.take_unsaved_parts())
        if finish is not None:
            parts.append(self._step_finish_part(finish, cost, tokens))
        return StepEnd(
            request_id=self._request_id,
            message=message,
            parts=tuple(parts),
            has_output=self.is_shown,
            calls=self._build_calls(finish, failure, now, effects),
            tokens=tokens,
        )

    def _verdict(self, *, last: bool) -> tuple[StepFinishReason | None, Failure | None]:
        """Return how the step ended, and why it failed if it did."""
        finish, failure = self._finish_and_failure()
        return ("max-steps", None) if last and finish == "tool-calls" else (finish, failure)

    def _finish_and_failure(self) -> tuple[Finish | None, Failure | None]:
        if isinstance(self._failure, MessageAbortedError):
            return None, self._failure
        if self._failure is not None:
            return "error", self._failure
        complete = [c for c in self._draft_calls.values() if c.input is not None]
        match self._finish.finish if self._finish else "unknown":
            case "tool-calls" if (
                self._draft_calls
            ):  # also calls with broken arguments: the model reads the error
                return "tool-calls", None
            case "stop" | "tool-calls":
                return "tool-calls" if complete else "stop", None
            case "length":
                return (
                    "length",
                    None if self._draft_calls or self._has_visible_text else output_length_error(),
                )
            case "content-filter":
                return "content-filter", content_filter_error("The provider's filter stopped this answer.")
            case "error":
                return "error", api_error("The provider reported an error.", is_retryable=True)
            case _:  # also a finish that is not in the type
                return "unknown", api_error(NO_FINISH, is_retryable=True)

    def _step_finish_part(
        self, finish: StepFinishReason, cost: float, tokens: Tokens | None
    ) -> StepFinishPart:
        return StepFinishPart(
            id=self._ids.part(),
            session_id=self.message.session_id,
            message_id=self.message.id,
            reason=finish,
            cost=cost,
            tokens=tokens or Tokens.zero(),
        )

    def _build_calls(
        self,
        finish: StepFinishReason | None,
        failure: Failure | None,
        now: int,
        effects: Mapping[str, Effect],
    ) -> tuple[Call, ...]:
        never = Settled(Failed(_why_not_run(finish, failure)), now)
        calls = []
        for key, called in self._draft_calls.items():
            call = Call(
                id=self._ids.call(),
                session_id=self.message.session_id,
                message_id=self.message.id,
                part_id=called.part_id,
                call_id=replace_surrogates(key),
                tool=called.tool,
                input=called.input or {},
                turn=self._turn,
                created=now,
                agent=self.message.agent,
                effect=effects.get(called.tool, "once"),
            )
            runs = finish == "tool-calls" and called.input is not None
            calls.append(call if runs else call.with_state(never))
        return tuple(calls)


def _why_not_run(finish: StepFinishReason | None, failure: Failure | None) -> str:
    match finish:
        case "tool-calls":
            return BROKEN_INPUT
        case "max-steps":
            return STEP_LIMIT
        case _:
            return ABORTED if isinstance(failure, MessageAbortedError) else NEVER_RAN


def _storable_failure(failure: Failure) -> Failure:
    """Replace unpaired surrogates in a failure that could not be stored with them."""
    try:
        encode_body(failure)
    except InvalidInput:
        return read_failure(replace_surrogates_in(msgspec.to_builtins(failure)))
    return failure


def _valid_cost(cost: float) -> float:
    """Return a finite, non-negative cost, else 0: infinity would make the session unreadable."""
    return cost if isfinite(cost) and cost >= 0 else 0.0


def _storable_input(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return arguments that can be stored; None if they cannot: the call is stored as one that never ran."""
    try:
        encode_body([[given]])  # a part holds the arguments two levels deep
    except InvalidInput:
        return None
    return given
