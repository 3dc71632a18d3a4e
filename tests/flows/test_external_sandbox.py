"""External agents of lineages that may not edit: a read-only project, or no launch."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig
from asyncagents.domain.conversation.part import ToolFailed
from asyncagents.testing.acp_agent import Act
from asyncagents.tools.process.processes import find_bwrap
from tests.support.acp_agent import ALLOWED, launching, open_external_stage, scripted

NO_EDITS: dict[str, Any] = {
    "rules for all": {"permission": {**ALLOWED, "edit": "deny"}},
    "its parent": {"agent": {"build": AgentConfig(permission={"edit": "deny"})}},
    "itself": {"own": {"edit": "deny"}},
    "most files": {"own": {"edit": {"*": "deny", "docs/**": "allow"}}},
}


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("denied", NO_EDITS)
async def test_an_external_agent_that_may_not_edit_is_not_launched_without_bwrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str
) -> None:
    monkeypatch.setattr("asyncagents.tools.process.processes.SYSTEM_FOLDERS", ())
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "git")
    monkeypatch.setenv("PATH", str(programs))
    async with open_external_stage(tmp_path, scripted(), **NO_EDITS[denied]) as stage:
        await stage.at.prompt("go")
        (state,) = await stage.at.states()
        assert await stage.at.runtime.tasks.list() == ()
    assert isinstance(state, ToolFailed)
    assert "bwrap is not installed" in state.error
    assert stage.prompts == []


@pytest.mark.spec("X-03")
@pytest.mark.skipif(find_bwrap(None, outside=None) is None, reason="bwrap is not installed")
@pytest.mark.parametrize("denied", [*NO_EDITS, ""])
async def test_the_project_is_read_only_where_edits_are_denied(tmp_path: Path, denied: str) -> None:
    acts = [Act(shell="touch changed"), Act(say="Tried.")]
    rules = NO_EDITS[denied] if denied else {}
    async with open_external_stage(tmp_path, scripted({"look": acts}), launching(), **rules) as stage:
        await stage.at.prompt("go")
        assert (await stage.task()).result == "Tried."
    assert (tmp_path / "project" / "changed").exists() is not bool(denied)
