"""Stages whose child agents stop at a gate before they write, to change their rights meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.config.config import AgentConfig, Config, DelegationConfig
from asyncagents.llm.scripted import ScriptStep, call, say
from tests.support.delegation import RequestScript, RequestScriptModel, wait_until_quiet
from tests.support.git import create_repository
from tests.support.runtime import Stage, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

ALLOW_EDITS: dict[str, Any] = {"edit": "allow", "bash": "allow", "unclear_command": "allow"}


ALLOW_TASKS: dict[str, Any] = {**ALLOW_EDITS, "task": "allow"}


AGENTS = {
    "worker": AgentConfig(mode="all", description="Works.", permission=ALLOW_EDITS),
    "lead": AgentConfig(mode="all", description="Leads.", permission=ALLOW_TASKS),
}


WRITE = call("write", filePath="a.txt", content="mine")


IDLE: list[ScriptStep] = [[say("Fine.")]]


class GatedStage:
    """A stage whose children stop at a gate before they try to write `a.txt`."""

    def __init__(self, at: Stage, gate: Gate, root: Path) -> None:
        self.at = at
        self.runtime = at.runtime
        self.gate = gate
        self.root = root

    async def say(self, text: str, agent: str | None, **more: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.runtime.prompt(self.at.session_id, text, agent=agent, **more)

    async def begin(self, text: str, agent: str, **more: Any) -> None:
        """Until a child stands at the gate."""
        await self.runtime.send(self.at.session_id, text, agent=agent, **more)
        await self.gate.until_started()

    async def let_go(self) -> None:
        self.gate.go.set()
        await wait_until_quiet(self.runtime, self.at.session_id)

    @property
    def wrote(self) -> bool:
        return (self.root / "a.txt").exists()


@asynccontextmanager
async def open_gated_stage(tmp_path: Path, scenes: RequestScript, **config: Any) -> AsyncIterator[GatedStage]:
    root, gate = tmp_path / "project", Gate("gate", effect="none")
    create_repository(root, {"b.txt": ""})
    config.setdefault("agent", AGENTS)
    coding = Config(data_dir=tmp_path / "data", delegation=DelegationConfig(tools="both"), **config)
    async with open_stage(
        tmp_path / "data",
        RequestScriptModel(scenes),
        tools=[gate.tool],
        coding=coding,
        directory=root,
        undoes=True,
    ) as at:
        yield GatedStage(at, gate, root)
