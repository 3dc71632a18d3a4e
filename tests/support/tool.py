"""Tools of tests: gates, echoes, pending calls, tasks and todos."""

import asyncio
from typing import Any

from msgspec import Struct

from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.part import (
    TextPart,
)
from asyncagents.domain.conversation.part_input import SubtaskInput
from asyncagents.engine.tool import Ask, Pending, Tool, ToolContext
from asyncagents.llm.scripted import ScriptLine, call
from tests.support.runtime import Stage
from tests.support.wait import PATIENCE

FIND_SUBTASK = SubtaskInput(prompt="Find it", description="Find", agent="explore", command="find")


GO_ON = "The task that the user started has ended"


class TaskArguments(Struct, frozen=True):
    description: str
    prompt: str
    subagent_type: str
    command: str | None = None


def build_task_tool(seen: list[TaskArguments]) -> Tool[TaskArguments]:
    async def run(args: TaskArguments, context: ToolContext) -> Completed:
        seen.append(args)
        return Completed(f"{args.subagent_type} did it")

    return Tool("task", TaskArguments, run)


OPEN_TODOS = [{"content": "Look", "status": "completed"}, {"content": "Leap", "status": "in_progress"}]


NUDGE_MARK = "[SYSTEM REMINDER - TODO CONTINUATION]"


def write_todos(items: list[dict[str, str]]) -> ScriptLine:
    return call("todowrite", todos=items)


async def read_nudges(at: Stage) -> list[str]:
    return [
        part.text
        for entry in await at.messages()
        for part in entry.parts
        if isinstance(part, TextPart) and part.synthetic and part.text.startswith(NUDGE_MARK)
    ]


class NoArguments(Struct, frozen=True):
    """A tool of the tests."""


class TextArguments(Struct, frozen=True):
    """Does something with a text."""

    text: str


class Gate:
    """A tool that reports its start and ends when it is let go."""

    def __init__(self, name: str, *, result: str = "through", effect: Any = "once") -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()
        self.runs = 0
        self._result = result
        self.tool: Tool[NoArguments] = Tool(name, NoArguments, self._run, effect=effect)

    async def _run(self, args: NoArguments, context: ToolContext) -> Completed:
        self.runs += 1
        self.started.set()
        try:
            await self.go.wait()
            return Completed(self._result)
        finally:
            self.ended.set()

    async def until_started(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.started.wait()


async def run_echo(args: TextArguments, context: ToolContext) -> Completed:
    return Completed(args.text)


async def plan_ask(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
    return (Ask("echo", (args.text,)),)


ECHO: Tool[TextArguments] = Tool("echo", TextArguments, run_echo, effect="none")


CAREFUL: Tool[TextArguments] = Tool("careful", TextArguments, run_echo, plan=plan_ask)


def build_pending_tool(name: str, **pending: Any) -> Tool[NoArguments]:
    """A tool that answers with a promise."""

    async def run(args: NoArguments, context: ToolContext) -> Pending:
        return Pending(**pending)

    return Tool(name, NoArguments, run)
