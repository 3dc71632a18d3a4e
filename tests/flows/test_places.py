"""What is launched in one step queues in the order of its calls, and each says where."""

from pathlib import Path

import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.conversation.part import ToolCompleted, ToolPart
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.llm.scripted import ScriptedModel, call, say
from tests.support.runtime import open_runtime
from tests.support.tool import Gate

LAUNCHES = 6
AT_ONCE = 2


def allow(ask: Ask, context: ToolContext) -> Action:
    return "allow"


@pytest.mark.spec("D-10")
async def test_each_launch_of_a_step_reports_its_place_in_the_queue(tmp_path: Path) -> None:
    launches = [
        call("asyncagents_task", description=f"Job {n}", prompt="job", agent="general")
        for n in range(LAUNCHES)
    ]
    gate = Gate("gate", effect="none")
    model = ScriptedModel({"go": [launches, [say("waiting")]], "job": [[call("gate")], [say("done")]]})
    limits = DelegationConfig(concurrent=AT_ONCE)
    async with open_runtime(
        tmp_path, model=model, tools=[gate.tool], policy=allow, delegation=limits
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        await gate.until_started()
        entries = await runtime.messages(session.id)
        seen = await runtime.tasks.list(session.id)
        gate.go.set()
        await runtime.wait_tree(session.id)
        ended = await runtime.tasks.list(session.id)

    states = [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    told = [state.output for state in states if isinstance(state, ToolCompleted)]
    said = [text.split("status: ")[1].splitlines()[0] for text in told]
    assert said == ["running", "running", *(f"queued (place {place})" for place in range(1, 5))]
    assert [task.description for task in seen] == [f"Job {n}" for n in range(LAUNCHES)]
    assert [task.progress.place for task in seen if task.progress] == [None, None, 1, 2, 3, 4]
    assert [task.status for task in ended] == ["completed"] * LAUNCHES
