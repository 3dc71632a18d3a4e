"""A model that plays a script, for tests, demos and trials without a key."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.failure import Failure, api_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.text import without_reminders
from asyncagents.domain.window import Window
from asyncagents.llm.model import (
    ChatRequest,
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
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    ToolTurn,
    UserTurn,
)


class Say(Struct, frozen=True):
    chunks: tuple[str, ...]


class Think(Struct, frozen=True):
    text: str


class CallTool(Struct, frozen=True):
    tool: str
    input: dict[str, Any]


class Pause(Struct, frozen=True):
    seconds: float


class EndStep(Struct, frozen=True):
    """How the step ends; None: the stream stops without a finish event."""

    finish: Finish | None


class Fail(Struct, frozen=True):
    failure: Failure
    retry_after: float | None = None


ScriptLine: TypeAlias = Say | Think | CallTool | Pause | EndStep | Fail
ScriptStep: TypeAlias = Sequence[ScriptLine]
Script: TypeAlias = Mapping[str, Sequence[ScriptStep]]


def say(*chunks: str) -> ScriptLine:
    """Make the model write a text, one event for each chunk."""
    return Say(chunks)


def think(text: str) -> ScriptLine:
    """Make the model write reasoning."""
    return Think(text)


def call(tool: str, **input: Any) -> ScriptLine:
    """Make the model call a tool with these arguments."""
    return CallTool(tool, input)


def pause(seconds: float) -> ScriptLine:
    """Wait before the next line of the step."""
    return Pause(seconds)


def end(finish: Finish | None) -> ScriptLine:
    """Set the finish reason of the step; None: the stream stops without a finish event."""
    return EndStep(finish)


def fail(
    message: str, *, retryable: bool = False, status: int | None = None, retry_after: float | None = None
) -> ScriptLine:
    """Make the request fail as a provider does; a `retryable` failure is tried again."""
    return Fail(api_error(message, is_retryable=retryable, status_code=status), retry_after)


OK: ScriptStep = (Say(("ok",)),)


class ScriptedModel:
    """Answers a known user text with its steps, one per request, and anything else with `otherwise`.

    The next step is derived from the request, so a new process continues the script. `requests` records
    the requests, unless `remember` is false.
    """

    def __init__(
        self,
        script: Script,
        *,
        otherwise: ScriptStep = OK,
        remember: bool = True,
        window: Window | None = None,
    ) -> None:
        self._script = script
        self._window = window or Window()
        self._otherwise = otherwise
        self._remember = remember
        self.requests: list[ChatRequest] = []

    def window(self, model: ModelRef) -> Window:
        return self._window

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._remember:
            self.requests.append(replace(request, messages=tuple(request.messages)))
        return self._play(request)

    async def _play(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        yield StreamStart()
        yield StepStart()
        finish: Finish | None = "stop"
        written = 0
        for number, line in enumerate(self._step(request)):
            match line:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Fail(failure, retry_after):
                    yield StreamError(failure, retry_after)
                    return
                case EndStep(given):
                    finish = given
                case Say() | Think() | CallTool():
                    finish = "tool-calls" if isinstance(line, CallTool) else finish
                    written += 1
                    for event in _events(line, f"{len(request.messages)}_{number}"):
                        yield event
        if finish is not None:
            yield StepFinish(finish, _usage(request, written))
            yield StreamFinish()

    def _step(self, request: ChatRequest) -> ScriptStep:
        """Return the step after those already played since the last user text in the script."""
        played = 0
        for message in reversed(request.messages):
            match message:
                case ModelTurn():
                    played += 1
                case UserTurn(text) if (prompt := without_reminders(text)) in self._script:
                    steps = self._script[prompt]
                    return steps[played] if played < len(steps) else self._otherwise
                case UserTurn() | ToolTurn():
                    pass
        return self._otherwise


def _events(line: Say | Think | CallTool, key: str) -> Iterator[ModelEvent]:
    match line:
        case Say(chunks):
            yield TextStart(key)
            for chunk in chunks:
                yield TextDelta(key, chunk)
            yield TextEnd(key)
        case Think(text):
            yield ReasoningStart(key)
            yield ReasoningDelta(key, text)
            yield ReasoningEnd(key)
        case CallTool(tool, given):
            yield ToolCallStart(f"call_{key}", tool)
            yield ToolCallReady(f"call_{key}", tool, given)


def _usage(request: ChatRequest, written: int) -> Tokens:
    return Tokens(
        input=len(request.messages),
        output=written,
        reasoning=0,
        cache=CacheTokens(read=0, write=0),
        total=len(request.messages) + written,
    )
