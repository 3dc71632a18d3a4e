"""A child may do what its parent could when it launched it, or less, whatever the parent may do later."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.config.config import CommandConfig
from asyncagents.domain.conversation.part_input import SubtaskInput
from asyncagents.domain.conversation.session import LaunchRights, Rule, SessionChanges
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, say
from tests.support.delegation import RequestScript, child_session, launch_agent, task_ids, wait_until_quiet
from tests.support.rights import AGENTS, IDLE, WRITE, open_gated_stage
from tests.support.transfer import export_files, import_into_store, open_other_store

TRY: list[ScriptStep] = [[call("gate")], [WRITE], [say("Tried.")]]


def in_a_fork(own: ScriptStep, forked: ScriptStep) -> Callable[[ChatRequest], ScriptStep]:
    """One step of a parent and of its fork, which begin alike."""

    def step(request: ChatRequest) -> ScriptStep:
        last = [told.text for told in request.messages if isinstance(told, UserTurn)][-1]
        return forked if "look" in last.splitlines() else own

    return step


LAUNCHES: dict[str, RequestScript] = {
    **{
        tool: {"go": [[launch_agent(tool)], *IDLE], "look": TRY}
        for tool in ("task", "async_task", "asyncagents_task")
    },
    "fork": {
        "go": [
            in_a_fork([launch_agent("asyncagents_task", fork=True)], TRY[0]),
            in_a_fork(IDLE[0], TRY[1]),
            in_a_fork(IDLE[0], TRY[2]),
        ]
    },
    "grandchild": {
        "go": [[launch_agent("asyncagents_task", "lead", "lead it", description="Lead")], *IDLE],
        "lead it": [[launch_agent("asyncagents_task")], *IDLE],
        "look": TRY,
    },
}


@pytest.mark.spec("A-03", "D-04")
@pytest.mark.parametrize("how", LAUNCHES)
async def test_a_child_of_plan_writes_nothing_when_its_parent_has_become_build(
    tmp_path: Path, how: str
) -> None:
    async with open_gated_stage(tmp_path, LAUNCHES[how]) as on:
        await on.begin("go", "plan")
        await on.runtime.send(on.at.session_id, "now build", agent="build")
        await on.let_go()
        now = await on.runtime.session(on.at.session_id)
        await on.say("still build", None)

    assert now.agent == "build"
    assert not on.wrote


@pytest.mark.spec("A-03", "D-04")
@pytest.mark.parametrize("how", LAUNCHES)
async def test_a_child_of_build_writes_when_its_parent_is_still_build(tmp_path: Path, how: str) -> None:
    """The gate and the scripts are such that a child can write: the test above could fail."""
    async with open_gated_stage(tmp_path, LAUNCHES[how]) as on:
        await on.begin("go", "build")
        await on.let_go()

    assert on.wrote


@pytest.mark.spec("A-03", "D-04")
@pytest.mark.parametrize("how", LAUNCHES)
async def test_a_child_of_build_writes_nothing_once_its_parent_plans(tmp_path: Path, how: str) -> None:
    async with open_gated_stage(tmp_path, LAUNCHES[how]) as on:
        await on.begin("go", "build")
        await on.runtime.send(on.at.session_id, "now plan", agent="plan")
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03", "D-04")
async def test_a_grandchild_is_bound_by_each_launch_above_it(tmp_path: Path) -> None:
    """The lead is spoken to as `plan` when it launches, and as itself later; the root is `build`."""
    scenes: RequestScript = {
        "go": [[launch_agent("asyncagents_task", "lead", "wait for me", description="Lead")], *IDLE],
        "wait for me": IDLE,
        "launch one": [[launch_agent("asyncagents_task")], *IDLE],
        "look": TRY,
    }
    async with open_gated_stage(tmp_path, scenes) as on:
        await on.say("go", "build")
        await wait_until_quiet(on.runtime, on.at.session_id)
        lead = await child_session(on.at, "Lead")
        await on.runtime.send(lead, "launch one", agent="plan")
        await on.gate.until_started()
        await on.runtime.send(lead, "now lead", agent="lead")
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03", "T-08")
@pytest.mark.parametrize("tool", ["task", "asyncagents_task"])
async def test_a_follow_up_of_build_frees_no_child_that_plan_launched(tmp_path: Path, tool: str) -> None:
    def resume(request: ChatRequest) -> ScriptStep:
        task_id = task_ids(request)[0]
        if tool == "task":
            return [launch_agent("task", prompt="look", task_id=task_id)]
        return [call("asyncagents_task", prompt="look", resume=task_id)]

    scenes: RequestScript = {
        "go": [[launch_agent(tool, prompt="only think")], *IDLE],
        "only think": [[say("Thought.")]],
        "resume it": [resume, *IDLE],
        "look": TRY,
    }
    async with open_gated_stage(tmp_path, scenes) as on:
        await on.say("go", "plan")
        await wait_until_quiet(on.runtime, on.at.session_id)
        await on.begin("resume it", "build")
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03", "T-08")
async def test_a_persons_prompt_to_a_child_of_plan_does_not_free_it(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_agent("asyncagents_task", prompt="think")], *IDLE],
        "think": IDLE,
        "look": TRY,
    }
    async with open_gated_stage(tmp_path, scenes) as on:
        await on.say("go", "plan")
        await wait_until_quiet(on.runtime, on.at.session_id)
        child = await child_session(on.at, "Job")
        await on.say("now build", "build")
        await on.runtime.send(child, "look", agent="build")
        await on.gate.until_started()
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03", "D-11")
@pytest.mark.parametrize("how", ["part", "command"])
async def test_a_subtask_of_a_person_is_bound_by_the_agent_it_was_started_under(
    tmp_path: Path, how: str
) -> None:
    """The person speaks to `plan`, so what is started there plans."""
    command = {"job": CommandConfig(template="look", agent="worker", subtask=True)}
    async with open_gated_stage(tmp_path, {"hi": IDLE, "look": TRY}, command=command) as on:
        await on.say("hi", "plan")
        if how == "part":
            part = SubtaskInput(prompt="look", description="Job", agent="worker")
            await on.runtime.send(on.at.session_id, "", parts=[part])
        else:
            await on.runtime.send(on.at.session_id, "/job")
        await on.gate.until_started()
        await on.runtime.send(on.at.session_id, "now build", agent="build")
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03")
async def test_a_child_that_a_client_made_below_plan_is_bound_by_it(tmp_path: Path) -> None:
    async with open_gated_stage(tmp_path, {"hi": IDLE, "look": TRY}) as on:
        await on.say("hi", "plan")
        child = await on.runtime.create_session(directory=on.root, parent_id=on.at.session_id)
        await on.say("now build", "build")
        await on.runtime.send(child.id, "look", agent="worker")
        await on.gate.until_started()
        await on.let_go()

    assert not on.wrote


@pytest.mark.spec("A-03")
async def test_a_child_of_an_unprompted_session_is_bound_by_its_first_agent(
    tmp_path: Path,
) -> None:
    async with open_gated_stage(tmp_path, {"hi": IDLE, "look": TRY}) as on:
        child = await on.runtime.create_session(directory=on.root, parent_id=on.at.session_id)
        await on.say("hi", "build")
        await on.runtime.send(child.id, "look", agent="worker")
        await on.gate.until_started()
        await on.let_go()

    assert on.wrote


LOOSENED = Rule(permission="edit", pattern="*", action="allow")
DENIED = Rule(permission="edit", pattern="*", action="deny")


@pytest.mark.spec("A-03", "Z-04")
@pytest.mark.parametrize("by", ["map", "rules"])
async def test_rules_of_the_parent_that_a_person_loosens_later_free_no_child(tmp_path: Path, by: str) -> None:
    async with open_gated_stage(tmp_path, LAUNCHES["asyncagents_task"]) as on:
        if by == "rules":
            await on.runtime.conversations.change(on.at.session_id, SessionChanges(permission=(DENIED,)))
            await on.begin("go", "build")
            await on.runtime.conversations.change(on.at.session_id, SessionChanges(permission=(LOOSENED,)))
        else:
            await on.begin("go", "build", tools={"write": False})
            await on.say("more", "build", tools={"write": True})
        await on.let_go()
        await on.say("write it", "build")
        after = await on.runtime.session(on.at.session_id)

    assert (LOOSENED in (after.permission or ())) or after.tools == {"write": True}
    assert not on.wrote


@pytest.mark.spec("A-03")
async def test_an_approval_does_not_let_a_child_of_plan_run_a_command_unasked(tmp_path: Path) -> None:
    """`plan` asks for every command, whatever was approved; so does all that works for it."""
    run = call("bash", command="touch ran", description="Leave a mark")
    scenes: RequestScript = {
        "mark": [[run], *IDLE],
        "go": [[launch_agent("asyncagents_task")], *IDLE],
        "look": [[run], [say("Tried.")]],
    }
    async with open_gated_stage(tmp_path, scenes, permission={"bash": "ask"}, agent=AGENTS) as on:
        await on.runtime.send(on.at.session_id, "mark", agent="build")
        asked = (await on.at.listener.until(PermissionAsked)).request
        await on.runtime.answer(asked.id, "always")
        await wait_until_quiet(on.runtime, on.at.session_id)
        (on.root / "ran").unlink()
        await on.say("go", "plan")
        again = (await on.at.listener.until(PermissionAsked)).request
        await wait_until_quiet(on.runtime, on.at.session_id)
        child = await child_session(on.at, "Job")
        ran = (on.root / "ran").exists()
        await on.runtime.answer(again.id, "once")
        await wait_until_quiet(on.runtime, on.at.session_id)

    assert again.session_id == child
    assert ran is False
    assert (on.root / "ran").exists()


OLDER = """
UPDATE session SET info = CAST(json_remove(CAST(info AS TEXT), '$.launchRights') AS BLOB) WHERE id = ?
"""


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("recorded", ["plan", "build"])
async def test_a_child_that_an_older_program_launched_is_bound_by_the_agent_of_its_task(
    tmp_path: Path, recorded: str
) -> None:
    scenes: RequestScript = {
        "go": [[launch_agent("asyncagents_task", prompt="think")], *IDLE],
        "think": IDLE,
        "resume it": [
            lambda request: [call("asyncagents_task", prompt="look", resume=task_ids(request)[0])],
            *IDLE,
        ],
        "look": TRY,
    }
    async with open_gated_stage(tmp_path, scenes) as on:
        await on.say("go", recorded)
        await wait_until_quiet(on.runtime, on.at.session_id)
        child = await child_session(on.at, "Job")
        with closing(sqlite3.connect(tmp_path / "data" / "asyncagents.db")) as database, database:
            assert database.execute(OLDER, (child,)).rowcount == 1
        await on.begin("resume it", "build")
        await on.let_go()
        after = await on.runtime.session(child)

    assert after.launch_rights is None
    assert on.wrote == (recorded == "build")


@pytest.mark.spec("A-03", "P-13")
async def test_an_import_keeps_the_launch_rights_of_a_child(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[launch_agent("asyncagents_task", prompt="think")], *IDLE], "think": IDLE}
    async with open_gated_stage(tmp_path, scenes) as on:
        await on.say("go", "plan", tools={"webfetch": False})
        await wait_until_quiet(on.runtime, on.at.session_id)
        child = await child_session(on.at, "Job")
        await export_files(on.runtime, tmp_path / "files", on.at.session_id)
    await import_into_store(tmp_path / "other", tmp_path / "files")
    async with open_other_store(tmp_path / "other", serve=False) as (runtime, _):
        there = await runtime.session(child)

    assert there.launch_rights == LaunchRights(agent="plan", tools={"webfetch": False})
