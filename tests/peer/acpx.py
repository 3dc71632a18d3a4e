"""Runs `acpx`, a client of the Agent Client Protocol for the command line, against `asyncagents acp`."""

import asyncio
import json
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from shlex import join
from typing import Any

import pytest
from msgspec import Struct

from tests.support.acp.stage import AcpStage

PATIENCE = 120.0
IDLE_SECONDS = 60
"""So long acpx keeps the agent after a prompt; what the agent does meanwhile is seen and answered."""


class AcpxResult(Struct, frozen=True):
    """What a command printed: frames, or values of acpx's own."""

    code: int
    lines: list[dict[str, Any]]
    errors: str

    @property
    def text(self) -> str:
        """The text of the agent in the frames."""
        found = (each.get("params", {}).get("update", {}) for each in self.lines)
        chunks = (each for each in found if each.get("sessionUpdate") == "agent_message_chunk")
        return "".join(each["content"]["text"] for each in chunks)

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.lines if "method" in each]

    @property
    def stop_reasons(self) -> list[str]:
        results = (each.get("result") for each in self.lines)
        return [each["stopReason"] for each in results if isinstance(each, dict) and "stopReason" in each]


class Acpx:
    """A session of acpx in the project of a stage; a process of acpx keeps its agent between commands."""

    def __init__(self, stage: AcpStage, modules: Path) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not installed")
        self._stage = stage
        options = ("--approve-all", "--format", "json", "--ttl", str(IDLE_SECONDS))
        place = ("--agent", join(stage.command), "--cwd", str(stage.project))
        self._command = (node, str(modules / "acpx" / "dist" / "cli.js"), *place, *options)

    async def run(self, *words: str) -> AcpxResult:
        process = await asyncio.create_subprocess_exec(
            *(*self._command, *words),
            cwd=self._stage.project,
            env=self._stage.environment,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        lines = [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]
        return AcpxResult(process.returncode, lines, err.decode())

    async def prompt(self, text: str) -> AcpxResult:
        return await self.run("prompt", text)

    async def close(self) -> None:
        """End the session, and the process that keeps its agent."""
        await self.run("sessions", "close")
