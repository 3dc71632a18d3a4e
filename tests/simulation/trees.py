"""Worlds in which sessions launch sessions: how much they may, and what their model does about it."""

import random
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.llm.model import ModelTurn, RequestMessage, ToolTurn, UserTurn
from tests.simulation.parks import PARKS

TREES = 1_000_000
"""Seeds from here on are such worlds."""
WAITS = 1_500_000
"""In those from here on parents wait for their tasks, and tasks for the outside."""
MOST_SESSIONS = 30
TREE_STEPS = 6
RARELY = 0.015
AGENTS = ("general", "scout")
_ID = re.compile(r"ses_\w+")
_BATCH = re.compile(r"bat_\w+")
LAUNCHING = ("task", "asyncagents_task", "asyncagents_task", "async_task")
READING = (
    "asyncagents_output",
    "asyncagents_output",
    "asyncagents_output",
    "async_task_result",
    "asyncagents_cancel",
    "asyncagents_list",
    "resume",
    "resume",
    "task_id",
)


POLLS = ("asyncagents_output", "async_task_result")


class Grove(Struct, frozen=True, kw_only=True):
    """What is drawn for one such world."""

    limits: DelegationConfig
    launches: float
    """How often a call of a root launches somebody; the deeper, the less."""
    asks: bool
    """Whether a launch is asked for."""
    sessions: int
    """How many sessions there may be."""
    waits: bool = False
    """Whether parents mostly wait for their tasks, and tasks for the outside."""
    clears: float = RARELY
    """How often a call clears all tasks."""
    visits: int = 0
    """How many prompts go to children whose tasks were cleared."""
    agents: tuple[str, ...] = AGENTS
    """Those that are launched."""


def grove(seed: int) -> Grove | None:
    """None: nobody launches anybody."""
    if not TREES <= seed < PARKS:
        return None
    rng = random.Random(f"grove:{seed}")
    crowd, depth = rng.choice([(1, 5), (1, 2), (2, 3), (2, 5), (5, 3), (20, 4)])
    limits = DelegationConfig(
        tools="both",
        depth=depth,
        concurrent=crowd,
        spawns=rng.choice([2, 4, 8]),
        seconds=rng.choice([None, None, None, 8, 40]),
    )
    clearing = random.Random(f"clearing:{seed}")
    often = clearing.random() < 0.3
    return Grove(
        clears=0.12 if often else RARELY,
        visits=clearing.randrange(4, 12) if often else 0,
        limits=limits,
        launches=rng.choice([0.5, 0.7, 0.9]),
        asks=rng.random() < 0.2,
        sessions=rng.choice([8, 16, MOST_SESSIONS, MOST_SESSIONS]),
        waits=seed >= WAITS,
    )


class Call(Struct, frozen=True):
    tool: str
    input: dict[str, Any]


def delegating(
    rng: random.Random, told: Sequence[RequestMessage], name: str, *, grove: Grove, launches: bool
) -> Call:
    """A call of one of the tools for tasks; `name` is what a child of it is called."""
    if (again := _polled(told)) is not None and rng.random() < 0.6:
        return again
    known = [each for text in map(_text, told) for each in _ID.findall(text)]
    if rng.random() < grove.clears:
        return Call("asyncagents_clear", {})
    if launches and (not known or rng.random() < 0.5):
        return _launch(rng, name, grove.agents)
    task_id = rng.choice(known) if known and rng.random() < 0.97 else "ses_nobody"
    return _read(rng, told, task_id, name)


def waiting(rng: random.Random, told: Sequence[RequestMessage], depth: int) -> Call | None:
    """Wait for a task that it knows of, at once or by asking again and again; the deeper, for the outside."""
    known = [each for text in map(_text, told) for each in _ID.findall(text)]
    if depth and rng.random() < 0.3 + 0.2 * depth:
        return Call("job", {"n": 1})
    if not known or rng.random() < 0.3:
        return None
    if rng.random() < 0.5:
        return _polled(told) or Call("asyncagents_output", {"task_id": known[-1]})
    return Call("asyncagents_output", {"task_id": known[-1], "block": True, "timeout": 600})


def _polled(told: Sequence[RequestMessage]) -> Call | None:
    """What it asked for just now, in vain."""
    last = told[-1]
    if not isinstance(last, ToolTurn) or "still" not in last.output or last.tool not in POLLS:
        return None
    made = next(call for each in reversed(told) if isinstance(each, ModelTurn) for call in each.calls[-1:])
    return Call(made.tool, {"task_id": made.input.get("task_id", "")}) if made.tool in POLLS else None


def _text(told: RequestMessage) -> str:
    if isinstance(told, UserTurn):
        return told.text
    return told.output if isinstance(told, ToolTurn) else ""


def _launch(rng: random.Random, name: str, agents: Sequence[str]) -> Call:
    tool, agent = rng.choice(LAUNCHING), rng.choice(agents)
    said: dict[str, Any] = {"description": f"{name} work", "prompt": f"{name}:task"}
    said["subagent_type" if tool == "task" else "agent"] = agent
    if tool == "asyncagents_task" and rng.random() < 0.3:
        said["fork"] = True
    return Call(tool, said)


def _read(rng: random.Random, told: Sequence[RequestMessage], task_id: str, name: str) -> Call:
    match rng.choice(READING):
        case "resume":
            return Call("asyncagents_task", {"prompt": f"more of {name}", "resume": task_id})
        case "task_id":
            more = {"description": "more", "prompt": f"again {name}", "subagent_type": "general"}
            return Call("task", {**more, "task_id": task_id})
        case "asyncagents_output":
            wait = {"block": True, "timeout": rng.choice([0.5, 4, 30, 600])}
            hows: list[dict[str, Any]] = [{}, {}, wait, {"full_session": True}]
            how = rng.choice(hows)
            return Call("asyncagents_output", {"task_id": task_id, **how})
        case "asyncagents_cancel":
            batches = [each for text in map(_text, told) for each in _BATCH.findall(text)]
            if batches and rng.random() < 0.4:
                return Call("asyncagents_cancel", {"batch": rng.choice(batches)})
            return Call("asyncagents_cancel", {"task_id": task_id})
        case "asyncagents_list":
            return Call("asyncagents_list", {})
        case tool:
            return Call(tool, {"task_id": task_id})
