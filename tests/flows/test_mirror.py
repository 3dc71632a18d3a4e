"""What a child does is shown live beside the call that waits for it, and to nobody's model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolPart, ToolRunning
from asyncagents.domain.event import PartUpdated
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import ScriptedModel, call, say
from tests.support.runtime import Stage, open_stage
from tests.support.tool import ECHO, Gate


def allow(ask: Any, context: Any) -> Any:
    return "allow"


def shown(event: PartUpdated) -> list[dict[str, Any]]:
    """The calls of the child that a part of the tool `task` shows."""
    part = event.part
    if isinstance(part, ToolPart) and part.tool == "task" and isinstance(part.state, ToolRunning):
        return list((part.state.metadata or {}).get("summary", []))
    return []


def script(*tools: str) -> ScriptedModel:
    works = [[call(tool, **({"text": "hello"} if tool == "echo" else {}))] for tool in tools]
    return ScriptedModel(
        {
            "go": [[call("task", description="Look", prompt="child", subagent_type="x")], [say("done")]],
            "child": [*works, [say("seen")]],
        }
    )


async def until_shown(at: Stage, calls: list[tuple[str, str]]) -> PartUpdated:
    def fits(event: PartUpdated) -> bool:
        return [(each["tool"], each["state"]["status"]) for each in shown(event)] == calls

    return await at.listener.until(PartUpdated, fits)


@pytest.mark.spec("D-02")
async def test_calls_of_a_child_are_shown_beside_the_call_and_sent_to_no_model(tmp_path: Path) -> None:
    gate = Gate("gate")
    tools: list[AnyTool] = [ECHO, gate.tool]
    async with open_stage(tmp_path, script("echo", "gate"), tools=tools, delegation=True, policy=allow) as at:
        asked = asyncio.ensure_future(at.prompt("go"))
        event = await until_shown(at, [("echo", "completed"), ("gate", "running")])
        (stored,) = await at.states()
        gate.go.set()
        await asked
        (done,) = await at.states()
    assert event.session_id == at.session_id
    assert isinstance(stored, ToolRunning), "what is shown is not kept"
    assert stored.metadata is not None
    assert "summary" not in stored.metadata
    assert isinstance(done, ToolCompleted)
    assert [(each["tool"], each["state"]["status"]) for each in done.metadata["summary"]] == [
        ("echo", "completed"),
        ("gate", "completed"),
    ]
    told = [str(message) for request in at.model.requests for message in request.messages]
    assert not [text for text in told if "summary" in text]


@pytest.mark.spec("D-02")
async def test_calls_of_a_child_are_shown_again_after_a_restart(tmp_path: Path) -> None:
    first, second = Gate("gate", effect="none"), Gate("gate", effect="none")
    model = script("gate")
    async with open_stage(tmp_path, model, tools=[first.tool], delegation=True, policy=allow) as at:
        await at.runtime.send(at.session_id, "go")
        await first.until_started()
    async with open_stage(tmp_path, model, tools=[second.tool], delegation=True, policy=allow) as again:
        await second.until_started()
        event = await until_shown(again, [("gate", "running")])
        second.go.set()
        await again.runtime.wait(at.session_id)
    assert event.session_id == at.session_id
