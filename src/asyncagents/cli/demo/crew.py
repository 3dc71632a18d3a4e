"""The demo's crew: an orchestrator, five helpers, their one tool and their scripts."""

from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import Struct

from asyncagents.cli.demo.ledger import Ledger
from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import AnyTool, Ask, Tool, ToolContext
from asyncagents.llm.model import ChatRequest, Model, ModelEvent, ModelTurn, UserTurn
from asyncagents.llm.scripted import Script, ScriptedModel, ScriptLine, ScriptStep, call, pause, say

ONE_BY_ONE = "Count what we have for the fair, one thing after the other."
AT_ONCE = "Count what we have for the fair, all at once."
AGAIN = "Count it all again, for the winter fair."
THINK_SECONDS = 0.6
FOREVER = 3600.0

STOCK = {"chairs": 40, "lamps": 24, "cups": 120, "candles": 300, "tables": 9}
QUICK = ("chairs", "lamps")
"""The things whose helpers have ended when the process is killed."""


class Count(Struct):
    """Count something in the store-room."""

    thing: str


class CountTool:
    """The `count` tool. Its effect is `once`, the default: a count that may have started is not repeated."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def tool(self) -> AnyTool:
        return Tool("count", Count, self._count)

    async def _count(self, args: Count, context: ToolContext) -> Completed:
        self._ledger.write("count", context.call_id)
        return Completed(f"{STOCK[args.thing]} {args.thing}")


def allow_all(ask: Ask, context: ToolContext) -> Literal["allow"]:
    """Allow every call: all agents of the shop may launch helpers."""
    return "allow"


def task_title(thing: str) -> str:
    return f"Count the {thing}"


def count_answer(thing: str) -> str:
    return f"There are {STOCK[thing]} {thing}."


def crew_script(*, stuck: bool) -> Script:
    """Build the script; `stuck`: all helpers but the quick ones block before their answer."""
    launches = [
        call("asyncagents_task", description=task_title(thing), prompt=f"How many {thing}?", agent="helper")
        for thing in STOCK
    ]
    replies: list[ScriptStep] = [[say("Five helpers are at it.")], *([[say("Noted.")]] * len(STOCK))]
    script: dict[str, list[ScriptStep]] = {
        ONE_BY_ONE: [*([_blocking_task_call(thing)] for thing in STOCK), [say(SUM)]],
        AT_ONCE: [launches, *replies],
        AGAIN: [launches, *replies],
    }
    for thing in STOCK:
        seconds = FOREVER if stuck and thing not in QUICK else THINK_SECONDS
        script[f"How many {thing}?"] = [
            [call("count", thing=thing)],
            [pause(seconds), say(count_answer(thing))],
        ]
    return script


def _blocking_task_call(thing: str) -> ScriptLine:
    return call("task", description=task_title(thing), prompt=f"How many {thing}?", subagent_type="helper")


SUM = f"For the fair there are {', '.join(f'{count} {thing}' for thing, count in STOCK.items())}."
ALL_IN = f"All {len(STOCK)} tasks finished."


class Foreman:
    """A model that answers with the sum once a notice says that all helpers have ended."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sum = ScriptedModel({}, otherwise=[say(SUM)], remember=False)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        model = self._sum if _all_ended(request) else self._model
        async for event in model.stream(request):
            yield event


def _all_ended(request: ChatRequest) -> bool:
    """Return whether the newest input says that all tasks have ended."""
    for message in reversed(request.messages):
        match message:
            case ModelTurn():
                return False
            case UserTurn(text) if ALL_IN in text:
                return True
            case _:
                pass
    return False
