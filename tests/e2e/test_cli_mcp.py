"""`asyncagents mcp`: each server with what it offers or why it does not; an exit code for scripts."""

import sys
from pathlib import Path

import pytest

from asyncagents.config.config import Config
from asyncagents.engine.runtime.sessions import SessionOptions
from tests.support.http.server import serve_runtime
from tests.support.mcp.session import SERVER, Ledger, given_server, plain_server
from tests.support.process.command_line import open_desk
from tests.support.runtime import open_stage


@pytest.mark.spec("X-04", "X-06")
async def test_mcp_servers_are_listed_with_their_tools_or_their_error(tmp_path: Path) -> None:
    good = {
        "type": "local",
        "command": [sys.executable, SERVER],
        "environment": {"LEDGER": str(tmp_path / "ledger")},
    }
    bad = {"type": "local", "command": ["sh", "-c", "echo $TOKEN is wrong >&2; exit 3"]}
    off = {"type": "remote", "url": "http://127.0.0.1:1/mcp", "enabled": False}
    async with open_desk(tmp_path) as (desk, _):
        desk.configure(mcp={"good": good, "off": off})
        fine = await desk.run("mcp", "list", "--json")
        token = {"environment": {"TOKEN": "secret-of-bad"}}
        desk.configure(mcp={"good": good, "bad": {**bad, **token}, "off": off})
        failed = await desk.run("mcp")
        tools = await desk.run("tools")
        untrusted = await desk.run("mcp", "list", env={"ASYNCAGENTS_TRUST": ""})
        nothing_kept = not desk.data.exists()

    assert fine.code == 0, fine.err
    connected, switched_off = fine.json
    assert connected["name"] == "good"
    assert connected["transport"] == "stdio"
    assert connected["connected"] is True
    assert {"name": "good_add", "description": "Adds two numbers.", "effect": "none"} in connected["tools"]
    assert connected["resources"] == 2
    assert connected["prompts"] == 1
    assert switched_off["enabled"] is False
    assert switched_off["connected"] is False

    assert failed.code == 1
    assert failed.out.splitlines()[1:4] == [
        "bad     stdio  cannot be used: It ended with exit code 3.",
        "good    stdio  connected: 15 tools, 2 resources, 1 prompts",
        "off     http   disabled",
    ]
    assert failed.err == "bad stderr: … is wrong\n"
    assert "tools of MCP servers are listed by `asyncagents mcp list`" in tools.err

    assert untrusted.code == 0
    assert untrusted.out == ""
    assert "this project is not trusted" in untrusted.err
    starts = [line for line in (tmp_path / "ledger").read_text().splitlines() if line.startswith("start ")]
    assert len(starts) == 2
    assert nothing_kept


@pytest.mark.spec("X-04", "X-06")
async def test_servers_of_a_session_are_listed_with_their_state_by_its_server_or_from_the_store(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with open_desk(tmp_path) as (desk, _):
        async with open_stage(desk.data, {}, coding=Config(data_dir=desk.data)) as at:
            options = SessionOptions(
                directory=str(tmp_path),
                mcp_servers=(given_server(ledger), plain_server(ledger, "plain")),
            )
            session = await at.runtime.conversations.create(options)
            async with serve_runtime(at.runtime, desk.data):
                served = await desk.run("mcp", "list", "--session", session.id[:12], "--json")
                bare = await desk.run("mcp", "list", "--session", at.session_id)
        stored = await desk.run("mcp", "list", "--session", session.id)
        unknown = await desk.run("mcp", "list", "--session", "ses_none")

    assert served.code == 0, served.err
    assert [(each["server"]["name"], each["status"]) for each in served.json] == [
        ("kit", "waiting"),
        ("plain", "waiting"),
    ]
    assert bare.err == "this session was given no MCP servers\n"
    assert stored.code == 1
    assert "cannot be used: The values of LEDGER" in " ".join(stored.out.split())
    assert "starts with the next step" in stored.out
    assert not ledger.lines("start")
    assert unknown.code == 2
    assert "no session with id 'ses_none'" in unknown.err
