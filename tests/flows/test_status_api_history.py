"""The status API after a restart: nothing is forgotten. Each scenario of the source is a test."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.llm.scripted import call, fail, say
from tests.support.delegation import RequestScript, launch_task, task_named, wait_until_quiet, wait_until_rest
from tests.support.http.server import StageClient, serve_delegation
from tests.support.tool import ECHO, Gate

SCENES: RequestScript = {
    "go": [
        [launch_task("Good", "good"), launch_task("Bad", "bad"), launch_task("Stopped", "stopped")],
        [say("Off.")],
    ],
    "more": [[launch_task("New", "new")], [say("Off again.")]],
    "good": [[call("echo", text="x")], [say("Done.")]],
    "bad": [[fail("the model is on fire")]],
    "stopped": [[call("gate")]],
}


async def _ends(at: StageClient, gate: Gate) -> None:
    await at.stage.prompt("go")
    for name in ("Good", "Bad"):
        await wait_until_rest(at.runtime, (await task_named(at.runtime, name)).session_id)
    await gate.until_started()
    await at.runtime.tasks.cancel((await task_named(at.runtime, "Stopped")).session_id)
    await wait_until_quiet(at.runtime, at.stage.session_id)


async def _seen(at: StageClient) -> dict[str, Any]:
    page = await at.json("/v1/tasks")
    return {task["description"]: task for task in page["tasks"]}


@pytest.mark.spec("H-09")
async def test_tasks_persist_across_plugin_restarts(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        await _ends(at, gate)
        before, stats = await at.json("/v1/tasks"), await at.json("/v1/stats")
    async with serve_delegation(tmp_path, {}) as at:
        after, health = await at.json("/v1/tasks"), await at.json("/v1/health")
        async with at.stream() as listener:
            snapshot = await listener.until("snapshot")

    assert len(before["tasks"]) == 3
    assert before == after
    assert health["taskCount"] == 3
    assert snapshot.data == {"tasks": before["tasks"], "stats": stats}


@pytest.mark.spec("H-09")
async def test_historical_tasks_appear_in_task_list_responses(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        await _ends(at, gate)
        before = await _seen(at)
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        await at.stage.prompt("more")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        page, names = await at.json("/v1/tasks"), await _seen(at)

    assert [task["description"] for task in page["tasks"]] == ["New", "Stopped", "Bad", "Good"]
    assert page["total"] == 4
    assert {name: names[name] for name in before} == before


@pytest.mark.spec("H-09", "H-04")
async def test_task_detail_accessible_for_completed_tasks_after_restart(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        await _ends(at, gate)
        before = await _seen(at)
        logs = {name: await at.json(f"/v1/tasks/{task['sessionID']}/logs") for name, task in before.items()}
    async with serve_delegation(tmp_path, {}) as at:
        after = {name: await at.json(f"/v1/tasks/{task['sessionID']}") for name, task in before.items()}
        again = {name: await at.json(f"/v1/tasks/{task['sessionID']}/logs") for name, task in before.items()}
        group = await at.json(f"/v1/task-groups/{before['Good']['batchId']}")

    assert after == before
    assert again == logs
    assert after["Good"]["status"] == "completed"
    assert after["Good"]["progress"]["toolCalls"] == 1
    assert after["Bad"]["status"] == "error"
    assert ("on fire" in after["Bad"]["error"]) is True
    assert after["Stopped"]["status"] == "cancelled"
    assert ("completedAt" in after["Stopped"]) is True
    assert group["stats"]["completionRate"] == pytest.approx(1 / 3)
