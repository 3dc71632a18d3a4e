"""A model with a window: it counts what it reads, says so, and refuses what is too much for it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import assert_never

import msgspec

from asyncagents.domain.conversation.failure import context_overflow_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.window import Window
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.llm.model import (
    ChatRequest,
    Finish,
    ModelEvent,
    ModelTurn,
    RequestMessage,
    StepFinish,
    StreamError,
    StreamFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.scripted import (
    CallTool,
    Fail,
    Say,
    Script,
    ScriptedModel,
    ScriptLine,
    say,
)

BYTES_A_TOKEN = 4
Answer = Callable[[ChatRequest], Sequence[ScriptLine]]


def count_tokens(request: ChatRequest) -> int:
    """What a request takes, in tokens of this model."""
    tools = sum(len(msgspec.json.encode(tool.parameters)) for tool in request.tools)
    return (sum(map(_size, request.messages)) + tools + len(request.system)) // BYTES_A_TOKEN


def _size(told: RequestMessage) -> int:
    """In bytes, with something for what a wire puts around it."""
    match told:
        case UserTurn(text):
            return len(text.encode()) + 30
        case ToolTurn(output=output):
            return len(output.encode()) + 60
        case ModelTurn():
            return len(msgspec.json.encode(told))
        case _:
            assert_never(told)


def is_summary_request(request: ChatRequest) -> bool:
    return request.system == prompt_text("compaction")


def build_summary(request: ChatRequest) -> Sequence[ScriptLine]:
    (asked,) = request.messages
    assert isinstance(asked, UserTurn)
    return [say(f"Summary of {len(asked.text)} characters.")]


class WindowModel:
    def __init__(
        self, window: Window, answer: Answer, *, summary: Answer = build_summary, tells: bool = True
    ) -> None:
        self._window = window
        self._answer = answer
        self._summary = summary
        self._tells = tells
        self.requests: list[ChatRequest] = []
        self.refused = 0

    def window(self, model: ModelRef) -> Window:
        """`tells`: or else nobody knows it beforehand."""
        return self._window if self._tells else Window()

    @property
    def steps(self) -> list[ChatRequest]:
        return [request for request in self.requests if not is_summary_request(request)]

    @property
    def summaries(self) -> list[ChatRequest]:
        return [request for request in self.requests if is_summary_request(request)]

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        request = msgspec.structs.replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        size = count_tokens(request)
        if self._window.context is not None and size > self._window.context:
            self.refused += 1
            yield StreamError(context_overflow_error(f"{size} tokens are too many"))
            return
        lines = self._summary(request) if is_summary_request(request) else self._answer(request)
        finish: Finish = "stop"
        written = 0
        for number, line in enumerate(lines):
            written += len(msgspec.json.encode(line))
            match line:
                case Fail(failure, retry_after):
                    yield StreamError(failure, retry_after)
                    return
                case Say(chunks):
                    yield TextStart(f"{number}")
                    for chunk in chunks:
                        yield TextDelta(f"{number}", chunk)
                    yield TextEnd(f"{number}")
                case CallTool(tool, given):
                    finish = "tool-calls"
                    yield ToolCallReady(f"call_{len(self.requests)}_{number}", tool, given)
                case _:
                    raise AssertionError(f"{line} is not in this model's repertoire")
        yield StepFinish(finish, _tokens(size, written // BYTES_A_TOKEN))
        yield StreamFinish()


def _tokens(read: int, written: int) -> Tokens:
    return Tokens(input=read, output=written, reasoning=0, cache=CacheTokens(read=0, write=0))


class HaltingModel(ScriptedModel):
    """Stops behind a word until it is let go."""

    def __init__(self, script: Script, word: str) -> None:
        super().__init__(script)
        self.go, self.halts = asyncio.Event(), asyncio.Event()
        self._word = word

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event
                if isinstance(event, TextDelta) and event.text == self._word:
                    self.halts.set()
                    await self.go.wait()
