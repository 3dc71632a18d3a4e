"""What a child may do when those above it change, vanish or were written by another hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from asyncagents.archive.import_ import import_from
from asyncagents.config.config import AgentConfig
from asyncagents.domain.conversation.part import ToolFailed, ToolPart
from asyncagents.domain.conversation.session import Rule, SessionChanges
from asyncagents.domain.event import PermissionAsked
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import AsyncAgentsError
from asyncagents.llm.scripted import call, say
from tests.support.delegation import RequestScript, child_session, launch_agent, wait_until_quiet
from tests.support.rights import AGENTS, IDLE, WRITE, GatedStage, open_gated_stage
from tests.support.transfer import export_files
from tests.support.wait import wait_until

BOSS = AgentConfig(mode="all", description="Leads.", permission={"task": "allow"})
RUN = call("bash", command="touch ran", description="Leave a mark")
OPEN = Rule(permission="*", pattern="*", action="allow")
SCENES: RequestScript = {
    "approve": [[WRITE], [RUN], *IDLE],
    "go": [[launch_agent("asyncagents_task", prompt="think")], *IDLE],
    "think": IDLE,
    "try": [[WRITE], [RUN], [say("Tried.")]],
}
ASKING: dict[str, Any] = {"edit": "ask", "bash": "ask"}


async def approve_all(on: GatedStage) -> None:
    """Answer for good whatever the next prompt asks for, and remove what it made."""
    await on.runtime.send(on.at.session_id, "approve", agent="build")
    for _ in range(2):
        asked = await on.at.listener.until(PermissionAsked)
        await on.runtime.answer(asked.request.id, "always")
    await wait_until_quiet(on.runtime, on.at.session_id)
    for made in ("a.txt", "ran"):
        (on.root / made).unlink()


async def try_it(on: GatedStage, child: SessionId, **more: Any) -> list[str]:
    """Let a child try to write and to run; return what took effect, whatever was answered."""

    async def is_over() -> bool:
        return bool(await on.runtime.asks()) or await has_tried(on.runtime, child)

    await on.runtime.send(child, "try", **more)
    await wait_until(is_over)
    await on.runtime.abort(child)
    return [made for made in ("a.txt", "ran") if (on.root / made).exists()]


async def has_tried(runtime: Runtime, child: SessionId) -> bool:
    return (await runtime.messages(child))[-1].text == "Tried."


async def launched(on: GatedStage, agent: str, **more: Any) -> SessionId:
    await on.say("go", agent, **more)
    await wait_until_quiet(on.runtime, on.at.session_id)
    return await child_session(on.at, "Job")


VANISHED: dict[str, tuple[str, dict[str, AgentConfig]]] = {
    "an agent that was deleted": ("boss", AGENTS),
    "an agent that is switched off": ("boss", {**AGENTS, "boss": AgentConfig(disable=True)}),
    "plan, switched off": ("plan", {**AGENTS, "plan": AgentConfig(disable=True)}),
}


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("how", VANISHED)
async def test_no_approval_frees_a_child_whose_launching_agent_is_gone(tmp_path: Path, how: str) -> None:
    agent, after = VANISHED[how]
    async with open_gated_stage(tmp_path, SCENES, permission=ASKING, agent={**AGENTS, "boss": BOSS}) as on:
        await approve_all(on)
        child = await launched(on, agent)
    async with open_gated_stage(tmp_path, SCENES, permission=ASKING, agent=after) as on:
        assert await try_it(on, child) == []


@pytest.mark.spec("A-03", "Z-04")
@pytest.mark.parametrize("by", ["rules", "map"])
async def test_a_denial_of_a_session_outlives_its_agent(tmp_path: Path, by: str) -> None:
    denied = Rule(permission="edit", pattern="*", action="deny")
    async with open_gated_stage(tmp_path, SCENES, agent={**AGENTS, "boss": BOSS}) as on:
        if by == "rules":
            await on.runtime.conversations.change(on.at.session_id, SessionChanges(permission=(denied,)))
        child = await launched(on, "boss", **({"tools": {"write": False}} if by == "map" else {}))
    async with open_gated_stage(tmp_path, SCENES) as on:
        assert "a.txt" not in await try_it(on, child)
        parts = [part for entry in await on.runtime.messages(child) for part in entry.parts]
    refused = [part for part in parts if isinstance(part, ToolPart) and isinstance(part.state, ToolFailed)]
    assert [part.tool for part in refused if "Not allowed here" in _error(part)] == ["write"]


def _error(part: ToolPart) -> str:
    assert isinstance(part.state, ToolFailed)
    return part.state.error


LOOSER: dict[str, Any] = {
    "a child that may do everything": SessionChanges(permission=(OPEN,)),
    "a prompt that allows all tools": {"tools": {"write": True, "bash": True, "*": True}},
    "another agent": {"agent": "build"},
}


@pytest.mark.spec("A-03", "Z-04")
@pytest.mark.parametrize("how", LOOSER)
async def test_looser_rules_or_prompts_do_not_free_a_child_of_plan(tmp_path: Path, how: str) -> None:
    async with open_gated_stage(tmp_path, SCENES) as on:
        child = await launched(on, "plan")
        await on.say("think", "build")
        more = LOOSER[how]
        if isinstance(more, SessionChanges):
            await on.runtime.conversations.change(child, more)
            more = {}
        assert await try_it(on, child, **more) == []


ALLOWED = {"permission": "*", "pattern": "*", "action": "allow"}
EDITED: dict[str, Any] = {
    "no rights": None,
    "empty rights": {},
    "the rights of build": {"agent": "build"},
    "an agent that is nowhere": {"agent": "nobody"},
    "rules that allow everything": {"agent": "build", "permission": [ALLOWED]},
    "a map that allows everything": {"agent": "build", "tools": {"write": True, "bash": True}},
    "rights that are none": {"agent": 7},
}


@pytest.mark.spec("A-03", "P-13")
@pytest.mark.parametrize("how", EDITED)
async def test_edited_rights_of_an_import_free_no_child_of_a_session_that_plans(
    tmp_path: Path, how: str
) -> None:
    rights = EDITED[how]
    async with open_gated_stage(tmp_path / "here", SCENES) as on:
        child = await launched(on, "plan")
        await export_files(on.runtime, tmp_path / "files", on.at.session_id)
    edit_rights(tmp_path / "files", child, rights)
    async with open_gated_stage(tmp_path / "there", SCENES) as on:
        done = await import_from(on.runtime, tmp_path / "files", directory=on.root)
        try:
            there = await on.runtime.session(child)
        except AsyncAgentsError:
            assert done.troubles, "what cannot be read is told of and not imported"
            return
        assert there.parent_id is not None
        assert await try_it(on, child) == []


def edit_rights(folder: Path, child: SessionId, rights: Any) -> None:
    found = [path for path in folder.rglob("*.json") if '"launchRights"' in path.read_text()]
    assert found
    for path in found:
        value = json.loads(path.read_text())
        info = value.get("info", value)
        assert info["id"] == child
        if rights is None:
            del info["launchRights"]
        else:
            info["launchRights"] = rights
        path.write_text(json.dumps(value))


@pytest.mark.spec("A-03")
async def test_a_child_of_a_deleted_parent_can_do_nothing(tmp_path: Path) -> None:
    async with open_gated_stage(tmp_path, SCENES) as on:
        child = await launched(on, "plan")
        await on.runtime.delete_session(on.at.session_id)
        with pytest.raises(AsyncAgentsError):
            await try_it(on, child)
        assert not on.wrote


@pytest.mark.spec("A-03")
async def test_a_child_below_a_child_of_plan_that_a_client_makes_is_bound_by_both(tmp_path: Path) -> None:
    async with open_gated_stage(tmp_path, SCENES) as on:
        child = await launched(on, "plan")
        await on.say("think", "build")
        below = await on.runtime.create_session(directory=on.root, parent_id=child, permission=(OPEN,))
        assert await try_it(on, below.id, agent="build") == []


@pytest.mark.spec("A-03")
async def test_the_same_tries_succeed_where_nothing_forbids_them(tmp_path: Path) -> None:
    """The tests above could fail."""
    async with open_gated_stage(tmp_path, SCENES) as on:
        child = await launched(on, "build")
        assert await try_it(on, child) == ["a.txt", "ran"]
