"""MCP servers over HTTP: seen, added, switched off and on; and what cannot be done is said."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from asyncagents.server.opencode.mcp import STARTING
from asyncagents.tools.process.pipes import open_piped_process
from asyncagents.tools.process.processes import Processes
from tests.support.git import write_files
from tests.support.home import SECRET_KEY, root
from tests.support.http.client import Response
from tests.support.http.server import ProjectClient, serve_project
from tests.support.mcp.session import COMPILED, Ledger, forked_server, until_dead
from tests.support.wait import PATIENCE, wait_until

__all__ = ["root"]


async def add(at: ProjectClient, name: str, **config: Any) -> Response:
    return await at.request("POST", "/mcp", {"name": name, "config": config, "unknown": 1})


async def state_after(at: ProjectClient, ended: Callable[[Any], bool]) -> Any:
    async def look() -> Any:
        states = await at.json("/mcp")
        return states if ended(states) else None

    return await wait_until(look)


@pytest.mark.spec("X-01")
async def test_the_list_does_not_wait_for_a_server_that_starts(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    config = {"mcp": {"broken": {"type": "local", "command": ["/nope"]}}}
    write_files(root, {"asyncagents.json": json.dumps(config)})
    async with serve_project(tmp_path, root) as at:
        first = await at.json("/mcp")
        last = await state_after(at, lambda states: states["broken"]["error"] != STARTING)

    assert first == {"broken": {"status": "failed", "error": STARTING}}
    assert last["broken"]["status"] == "failed"


@pytest.mark.spec("X-01")
async def test_a_server_is_added_used_switched_off_and_on(tmp_path: Path, root: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    command = list(forked_server())
    environment = {"LEDGER": str(ledger.file), **COMPILED}
    other = tmp_path / "other"
    other.mkdir()
    async with serve_project(tmp_path, root) as at:
        none = await at.json("/mcp")
        added = await add(at, "kit", type="local", command=command, environment=environment, timeout=60_000)
        tools = await at.json("/experimental/tool/ids")
        resources = await at.json("/experimental/resource")
        elsewhere = await at.json(f"/mcp?directory={other}")
        off = await at.request("POST", "/mcp/kit/disconnect")
        await until_dead(ledger.pid())
        while_off = [await at.json("/mcp"), "kit_add" in await at.json("/experimental/tool/ids")]
        on = await at.request("POST", "/mcp/kit/connect")
        again = await state_after(at, lambda states: states["kit"].get("error") != STARTING)
    await until_dead(ledger.pid())

    assert none == {}
    assert elsewhere == {}
    assert added.json == {"kit": {"status": "connected"}}
    assert "kit_add" in tools
    assert resources["kit:note://hello"]["client"] == "kit"
    assert off.json is True
    assert on.json is True
    assert while_off == [{"kit": {"status": "disabled"}}, False]
    assert again == added.json
    assert len(ledger.lines("start")) == 2


async def test_a_server_that_failed_to_start_is_reported_and_can_be_replaced(
    tmp_path: Path, root: Path
) -> None:
    async with serve_project(tmp_path, root) as at:
        broken = await add(
            at, "x", type="local", command=["/nope", SECRET_KEY], environment={"A_TOKEN": SECRET_KEY}
        )
        off = await add(at, "x", type="local", command=["true"], enabled=False)

    assert broken.json["x"]["status"] == "failed"
    assert SECRET_KEY not in broken.text
    assert off.json == {"x": {"status": "disabled"}}


async def test_an_invalid_or_unsupported_request_for_a_server_is_refused(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        await add(at, "there", type="local", command=["true"], enabled=False)
        bad = [
            await add(at, "x", type="local"),
            await add(at, "x", type="local", command=[""]),
            await add(at, "x", type="remote", url="file:///etc/passwd"),
            await add(at, "x", type="remote", url="https://x.test", oauth={"clientId": "y"}),
            await add(at, "x", type="local", command=["true"], timeout=0),
            await add(at, "", type="local", command=["true"]),
            await add(at, "n\n", type="local", command=["true"]),
            await add(at, "x", type="other"),
            await at.request("POST", "/mcp/there/auth"),
            await at.request("POST", "/mcp/there/auth/callback", {"code": SECRET_KEY}),
            await at.request("POST", "/mcp/there/auth/authenticate"),
            await at.request("DELETE", "/mcp/there/auth"),
        ]
        gone = [
            await at.request("POST", f"/mcp/{name}")
            for name in ("no/connect", "no/disconnect", "no/auth", "no/auth/authenticate")
        ]
        states = await at.json("/mcp")

    assert [each.status for each in bad] == [400] * len(bad)
    assert [each.status for each in gone] == [404] * len(gone)
    assert not any(SECRET_KEY in each.text for each in bad)
    assert states == {"there": {"status": "disabled"}}


def test_a_piped_process_works_under_uvloop(tmp_path: Path) -> None:
    """As `serve` runs: its transports are no subclass of asyncio's."""

    async def echo() -> bytes:
        processes = Processes({"PATH": "/usr/bin:/bin"}, folder=tmp_path)
        async with asyncio.timeout(PATIENCE), open_piped_process(processes, ("cat",), cwd=tmp_path) as piped:
            await piped.writer.write(b"hello\n")
            return await piped.output.readline()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(echo()) == b"hello\n"
