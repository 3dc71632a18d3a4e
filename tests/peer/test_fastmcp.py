"""fastmcp with its package for tasks: a client of MCP tasks that was not written here."""

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from asyncagents.server.discovery import find_server
from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.process.command_line import PROCESS_PATIENCE, PROGRAM, open_desk
from tests.support.process.pip import install_requirements
from tests.support.process.server import open_desk_server

HERE = Path(__file__).parent
ECHO = ToolUse("bash", {"command": "echo x >> ran", "description": "Echo"})
SCRIPT: Script = {"edit": [Reply(text="", tools=(ECHO,)), Reply(text="Edited.")]}


@pytest.mark.spec("X-04", "A-04")
async def test_fastmcp_answers_the_ask_of_a_task_over_stdio_and_http(tmp_path: Path) -> None:
    python = await install_requirements(HERE / "fastmcp" / "requirements.txt")
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        desk.configure(permission={"*": "allow", "bash": "ask"})
        async with open_desk_server(desk):
            listing = find_server(desk.data)
            assert listing is not None
            process = await asyncio.create_subprocess_exec(
                *(str(python), str(HERE / "fastmcp" / "fastmcp_client.py"), PROGRAM, str(desk.project)),
                *(listing.url, str(listing.token), "edit"),
                cwd=tmp_path,
                env=desk.environment({}),
                stdout=PIPE,
                stderr=PIPE,
            )
            async with asyncio.timeout(2 * PROCESS_PATIENCE):
                out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    by_stdio, by_http = [json.loads(line) for line in out.splitlines()]
    for found in (by_stdio, by_http):
        assert found["result"]["status"] == "completed"
        assert found["result"]["result"] == "Edited."
        assert len(found["asked"]) == 1
    assert (desk.project / "ran").read_text() == "x\nx\n"
