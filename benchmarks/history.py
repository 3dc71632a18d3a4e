"""What one more step costs when the history is long: nothing that was read is read again."""

import time
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import Struct

from asyncagents import Completed, Tool, ToolContext, open_runtime
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    StepFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
)
from benchmarks.report import Figure

LENGTHS = (10, 200, 2_000)
WINDOW = 60


class Look(Struct, frozen=True):
    """Look at something."""

    n: int = 0


class Endless:
    """Calls a tool step after step; notes the CPU time at which each request came."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked.append(time.process_time())
        key = str(len(self.asked))
        yield TextStart(key)
        yield TextDelta(key, "some words before the call, as models use to say")
        yield TextEnd(key)
        if len(self.asked) > max(LENGTHS) + WINDOW:
            yield StepFinish("stop")
            return
        yield ToolCallReady(f"call{key}", "look", {"n": len(self.asked)})
        yield StepFinish("tool-calls")


async def _look(args: Look, context: ToolContext) -> Completed:
    return Completed("seen " * 40)


class _Stop:
    """Answers at once, and notes when it was asked."""

    def __init__(self) -> None:
        self.asked = 0.0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked = time.process_time()
        yield StepFinish("stop")


async def measure(directory: Path) -> list[Figure]:
    model = Endless()
    tools = [Tool("look", Look, _look, effect="none")]
    async with open_runtime(directory, model=model, tools=tools) as runtime:
        session = await runtime.create_session(directory="/project")
        await runtime.prompt(session.id, "go")
    costs = [_cost(model.asked, length) for length in LENGTHS]
    figures = [
        Figure(f"CPU of one more step at {length} messages", cost * 1e3, "ms")
        for length, cost in zip(LENGTHS, costs, strict=True)
    ]
    figures.append(Figure("… the longest against the shortest", 100 * costs[-1] / costs[0], "%", "80 to 120"))
    stop = _Stop()
    async with open_runtime(directory, model=stop, tools=tools) as runtime:
        begun = time.process_time()
        await runtime.prompt(session.id, "once more")
        figures.append(Figure("CPU to load 2,060 messages at a claim", (stop.asked - begun) * 1e3, "ms"))
    return figures


def _cost(asked: list[float], length: int) -> float:
    """The median step around a length; a history has one message a step."""
    first = max(1, length - WINDOW // 2) if length > WINDOW else 1
    steps = sorted(b - a for a, b in zip(asked[first : first + WINDOW], asked[first + 1 :], strict=False))
    return steps[len(steps) // 2]
