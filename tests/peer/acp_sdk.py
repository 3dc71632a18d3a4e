"""Runs `drive/acp.mjs`, a client by the published SDK of the Agent Client Protocol."""

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from tests.support.acp.schema import Frame
from tests.support.acp.stage import AcpStage

SCRIPT = Path(__file__).parent / "drive" / "acp.mjs"
PATIENCE = 120.0
CAPABILITIES: Frame = {"subagents": {}, "session": {"notices": {}}}


class SdkEvents(Struct, frozen=True):
    """Updates with their session, permissions that were asked, and results of prompts, in order."""

    session: str
    sent: list[Frame]

    def updates(self, session_id: str, *kinds: str) -> list[Frame]:
        found = (
            each["update"] for each in self.sent if each.get("session") == session_id and "update" in each
        )
        return [each for each in found if not kinds or each["sessionUpdate"] in kinds]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(each["content"]["text"] for each in self.updates(session_id, kind))

    @property
    def children(self) -> list[str]:
        """The sessions that were announced as children, in order."""
        found = (each["update"] for each in self.sent if "update" in each)
        ids = (each["sessionId"] for each in found if each["sessionUpdate"] == "subagent_update")
        return list(dict.fromkeys(ids))

    @property
    def asked(self) -> list[str]:
        return [each["asked"] for each in self.sent if "asked" in each]

    @property
    def stop_reasons(self) -> list[str]:
        return [each["stopReason"] for each in self.sent if "stopReason" in each]


async def drive_sdk(
    stage: AcpStage, modules: Path, *steps: Frame, capabilities: Frame | None = None
) -> SdkEvents:
    """Play steps with the agent of a stage; see the script for what a step may be."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    given: dict[str, Any] = {
        "modules": str(modules),
        "command": stage.command,
        "cwd": str(stage.project),
        "capabilities": CAPABILITIES if capabilities is None else capabilities,
        "steps": steps,
    }
    process = await asyncio.create_subprocess_exec(
        node, str(SCRIPT), json.dumps(given), env=stage.environment, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return msgspec.json.decode(out, type=SdkEvents)
