"""`"sandbox": true` at a real command line: what a command of the agent reaches of our own files."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from asyncagents.tools.process.processes import find_bwrap
from tests.support.http.opencode import tool_outputs
from tests.support.process.command_line import Desk, open_desk
from tests.support.process.server import open_server_process

HAS_BWRAP = find_bwrap(os.environ.get("PATH"), outside=None) is not None
ALLOWED = {"*": "allow", "unclear_command": "allow", "external_directory": "allow"}
PROBE = """
echo written > mine
cat {data}/token {data}/server.json {home}/.ssh/id
ls {data}
echo x > {home}/x
echo x > asyncagents.json
ls -d /proc/[0-9]* | wc -l
"""
# A program of the project: what it does the rules cannot tell.
RUN = ToolUse("bash", {"command": "bash probe"})
SCRIPT: Script = {"Try it": [Reply(text="", tools=(RUN,)), Reply(text="Done.")]}


async def ask(desk: Desk) -> tuple[str, str]:
    """What the command printed, and the token that it looked for."""
    async with open_server_process(desk, "--port", "0") as server:
        caller = server.client
        made = await caller.request("POST", "/session", body={}, headers=caller.authorization)
        at = f"/session/{made.json['id']}/message"
        body: dict[str, Any] = {"parts": [{"type": "text", "text": "Try it"}]}
        told = await caller.request("POST", at, body=body, headers=caller.authorization)
        assert told.status == 200, told
        messages = await caller.request("GET", at, headers=caller.authorization)
        token = (desk.data / "token").read_text().strip()
    (output,) = tool_outputs(messages.json)
    return output, token


def prepare(desk: Desk, **more: Any) -> None:
    desk.configure(permission=ALLOWED, **more)
    (desk.project / "probe").write_text(PROBE.format(data=desk.data, home=desk.home))
    (desk.home / ".ssh").mkdir()
    (desk.home / ".ssh" / "id").write_text("SECRET")


async def test_without_a_sandbox_a_command_reads_the_token(tmp_path: Path) -> None:
    """Else the tests below could not fail."""
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk)
        output, token = await ask(desk)
        assert token in output
        assert "SECRET" in output
        assert (desk.project / "mine").exists()
        assert (desk.home / "x").exists()


@pytest.mark.skipif(not HAS_BWRAP, reason="bwrap is not installed: there is no sandbox without it")
async def test_in_a_sandbox_a_command_writes_the_project_and_finds_no_secret(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk, sandbox={"network": False})
        before = (desk.project / "asyncagents.json").read_text()
        output, token = await ask(desk)
        doctor = await desk.run("doctor", "--json")
        assert token not in output
        assert "SECRET" not in output
        assert (desk.project / "mine").read_text() == "written\n"
        assert not (desk.home / "x").exists()
        assert (desk.project / "asyncagents.json").read_text() == before
    assert int(re.findall(r"\d+", output)[-1]) < 10
    levels = {each["level"] for each in doctor.json["checks"] if each["name"] == "sandbox"}
    assert levels == {"ok", "warn"}  # the project is trusted


@pytest.mark.skipif(HAS_BWRAP, reason="bwrap is installed: nothing is missing")
async def test_without_bwrap_no_command_of_a_sandboxed_agent_is_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        prepare(desk, sandbox=True)
        output, _ = await ask(desk)
        doctor = await desk.run("doctor", "--json")
        assert not (desk.project / "mine").exists()
    assert "bwrap is not installed. Nothing was run" in output
    (told,) = [each for each in doctor.json["checks"] if each["name"] == "sandbox"]
    assert told["level"] == "fail"
    assert "so commands of build" in told["text"]
    assert doctor.code == 1
