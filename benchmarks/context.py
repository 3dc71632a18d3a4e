"""What a step costs, all in all, early and late in a session that is summarised again and again."""

import time
from collections.abc import AsyncGenerator
from pathlib import Path

from asyncagents import Completed, Tool, ToolContext, open_runtime
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.window import Window
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    StepFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolTurn,
    UserTurn,
)
from benchmarks.history import Look
from benchmarks.report import Figure

STEPS = 2_000
PART = 400
"""So many steps at either end are compared; each has summaries in it."""
WINDOWS = {
    "200k": (Window(context=200_000, output=32_000), 8_000),
    "16k": (Window(context=16_000, output=4_000), 2_000),
}
"""And how long what a tool says is, in characters."""


class _Worker:
    """Calls a tool step after step, and summarises when it is asked to."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.asked: list[float] = []
        self.summaries = 0
        self.longest = 0

    def window(self, model: ModelRef) -> Window:
        return self._window

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        size = sum(_size(told) for told in request.messages) // 4
        self.longest = max(self.longest, size)
        key = str(len(self.asked))
        tokens = Tokens(input=size, output=20, reasoning=0, cache=CacheTokens(read=0, write=0))
        yield TextStart(key)
        yield TextDelta(key, "some words before the call, as models use to say")
        yield TextEnd(key)
        if not request.tools:
            self.summaries += 1
            yield StepFinish("stop", tokens)
            return
        self.asked.append(time.process_time())
        if len(self.asked) > STEPS:
            yield StepFinish("stop", tokens)
            return
        yield ToolCallReady(f"call{key}", "look", {"n": len(self.asked)})
        yield StepFinish("tool-calls", tokens)


def _size(told: object) -> int:
    match told:
        case UserTurn(text=text) | ToolTurn(output=text):
            return len(text)
        case _:
            return 200


async def measure(directory: Path) -> list[Figure]:
    figures: list[Figure] = []
    for name, (window, size) in WINDOWS.items():
        model = _Worker(window)

        async def look(args: Look, context: ToolContext, size: int = size) -> Completed:
            return Completed("s" * size)

        tools = [Tool("look", Look, look, effect="none")]
        async with open_runtime(directory / name, model=model, tools=tools) as runtime:
            session = await runtime.create_session(directory="/project")
            await runtime.prompt(session.id, "go")
        early = (model.asked[PART] - model.asked[0]) / PART
        late = (model.asked[-1] - model.asked[-1 - PART]) / PART
        figures += [
            Figure(f"CPU of a step, first {PART} of {STEPS:,}, window of {name}", early * 1e3, "ms"),
            Figure(
                f"… the last {PART}, after {model.summaries} summaries", 100 * late / early, "%", "80 to 120"
            ),
            Figure(
                "… the longest request, of the window",
                100 * model.longest / (window.context or 1),
                "%",
                "< 100",
            ),
        ]
    return figures
