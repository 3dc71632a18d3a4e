"""A task works in the sandbox of the agent that launched it; where bwrap is missing nothing is run."""

import shutil
from pathlib import Path

import pytest

from asyncagents.config.config import AgentConfig, Permission, SandboxConfig
from asyncagents.domain.conversation.part import ToolFailed
from asyncagents.llm.scripted import call, say
from tests.support.delegation import RequestScript, open_delegation_project

ALLOWED: Permission = {
    "bash": "allow",
    "external_directory": "allow",
    "unclear_command": "allow",
    "task": "allow",
}


@pytest.mark.parametrize("confined", [True, False])
async def test_a_task_is_confined_as_its_launcher_is(tmp_path: Path, confined: bool) -> None:
    """The task's own agent has no sandbox: alone, it writes where it likes."""
    outside = tmp_path / "outside"
    scenes: RequestScript = {
        "go": [
            [call("task", description="Job", prompt="work", subagent_type="worker")],
            [say("Done.")],
        ],
        "work": [[call("bash", command=f"echo ran > {outside}")], [say("Tried.")]],
    }
    agents = {
        "build": AgentConfig(sandbox=SandboxConfig() if confined else False),
        "worker": AgentConfig(mode="subagent", sandbox=False, permission=dict(ALLOWED)),
    }
    async with open_delegation_project(tmp_path, scenes, agent=agents, permission=dict(ALLOWED)) as at:
        await at.prompt("go")
    assert outside.exists() is not confined


async def test_a_sandboxed_command_fails_with_the_reason_where_bwrap_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.tools.process.processes.SYSTEM_FOLDERS", ())
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "bash"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(programs))
    scenes: RequestScript = {"go": [[call("bash", command="echo ran > ran")], [say("No.")]]}
    async with open_delegation_project(
        tmp_path, scenes, sandbox=SandboxConfig(), permission=dict(ALLOWED)
    ) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolFailed)
    assert "bwrap is not installed" in state.error
    assert "bubblewrap" in state.error
    assert not (tmp_path / "project" / "ran").exists()


async def test_a_shell_command_of_a_person_is_not_sandboxed(tmp_path: Path) -> None:
    async with open_delegation_project(
        tmp_path, {"go": [[say("Ok.")]]}, sandbox=SandboxConfig(network=False)
    ) as at:
        outside = tmp_path / "outside"
        await at.runtime.shell(at.session_id, f"echo ran > {outside}")
    assert outside.read_text() == "ran\n"
