"""A project whose agent `ext` is a scripted external agent, run as a program."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.config.config import AgentConfig, BackendConfig
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.llm.scripted import say
from asyncagents.testing.acp_agent import Act, AgentScript, FileMemory
from tests.support.delegation import (
    RequestScript,
    child_session,
    launch_agent,
    open_delegation_project,
    task_named,
)
from tests.support.runtime import Stage

ALLOWED: Mapping[str, Any] = {"external_agent": "allow"}


class ExternalStage(Struct, frozen=True):
    """A stage, and what the external agent remembers."""

    at: Stage
    memory: FileMemory

    @property
    def prompts(self) -> list[str]:
        """All prompts that the external agent got, in order."""
        updates = [update for session in self.memory.values() for update in session]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "user_message_chunk"]

    async def child(self) -> SessionId:
        return await child_session(self.at, "Job")

    async def task(self) -> BackgroundTask:
        return await task_named(self.at.runtime, "Job")


def scripted(turns: Mapping[str, list[Act]] | None = None, **more: Any) -> AgentScript:
    return AgentScript(turns=dict(turns or {}), **more)


def launching(prompt: str = "look", tool: str = "task") -> RequestScript:
    """The parent launches `ext` with a prompt, and ends after that."""
    return {"go": [[launch_agent(tool, "ext", prompt)], *[[say("Ok.")]] * 4]}


@asynccontextmanager
async def open_external_stage(
    tmp_path: Path,
    script: AgentScript,
    scenes: RequestScript | None = None,
    *,
    permission: Mapping[str, Any] = ALLOWED,
    **config: Any,
) -> AsyncIterator[ExternalStage]:
    """Open a project in which the scripted agent can be launched as `ext`."""
    script_file, memory = tmp_path / "script.json", tmp_path / "memory"
    script_file.write_bytes(msgspec.json.encode(script))
    command = (sys.executable, "-m", "asyncagents.testing.acp_agent", str(script_file), str(memory))
    ext = AgentConfig(
        backend=BackendConfig(acp=config.pop("command", command), environment=("PYTHONPATH",)),
        permission=config.pop("own", {}),
        prompt=config.pop("instructions", None),
    )
    agents = {"ext": ext, **config.pop("agent", {})}
    async with open_delegation_project(
        tmp_path, scenes or launching(), agent=agents, permission=permission, **config
    ) as at:
        yield ExternalStage(at, FileMemory(memory))
