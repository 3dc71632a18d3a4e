"""OpenCode itself as a client of our MCP server: its model runs one of our agents."""

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.peer.foreign import opencode
from tests.support.process.background_client import stop_servers
from tests.support.process.command_line import PROGRAM, open_desk
from tests.support.process.npm import SECONDS

RUN = ToolUse("asyncagents_agent_run", {"prompt": "count", "description": "Count"})
SCRIPT: Script = {
    "delegate": [Reply(text="", tools=(RUN,)), Reply(text="It says 42.")],
    "count": [Reply(text="There are 42.")],
}


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.spec("X-04")
async def test_opencode_runs_an_agent_by_its_configuration_alone(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT, strict=False) as (desk, provider), stop_servers(desk.data):
        program = await opencode(desk.home, provider.url)
        server = {
            "type": "local",
            "command": [PROGRAM, "mcp", "serve"],
            "environment": desk.environment({"OPENCODE_CONFIG": ""}),  # ours would read that file, too
            "enabled": True,
        }
        file = desk.home / "foreign-opencode.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "mcp": {"asyncagents": server}}))
        process = await asyncio.create_subprocess_exec(
            *(*program.command[:-1], "run", "--format", "json"),
            cwd=desk.project,
            env={**desk.environment({}), **program.variables},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(b"delegate")
        async with desk.look() as runtime:
            (session,) = await runtime.roots(desk.project)
            texts = [entry.text for entry in await runtime.messages(session.id)]

    assert process.returncode == 0, err.decode()
    events = [json.loads(line) for line in out.splitlines()]
    (tool,) = [each["part"] for each in events if each["type"] == "tool_use"]
    assert tool["tool"] == "asyncagents_agent_run"
    assert json.loads(tool["state"]["output"])["result"] == "There are 42."
    assert [each["part"]["text"] for each in events if each["type"] == "text"] == ["It says 42."]
    assert session.title == "Count"
    assert session.metadata == {"mcp": {"client": "opencode"}}
    assert texts == ["count", "There are 42."]
