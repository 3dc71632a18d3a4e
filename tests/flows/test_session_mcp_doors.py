"""MCP servers are given to sessions over HTTP and by editors; exports hold them without values."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.archive.import_ import import_from
from asyncagents.client.client import Client, open_client
from asyncagents.config.config import Config
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.llm.scripted import Script, call, say
from asyncagents.remote.json_rpc import INVALID_PARAMS
from tests.support.editor import open_editor
from tests.support.http.client import HttpClient
from tests.support.http.server import serve_runtime
from tests.support.mcp.session import Ledger, given_server, plain_server
from tests.support.process.fork_server import FORKED_PROGRAM
from tests.support.runtime import Stage, open_stage
from tests.support.transfer import export_files, open_other_store

SCRIPT: Script = {
    "go": [[call("kit_add", a=1, b=2)], [say("Done.")]],
    "again": [[call("kit_add", a=3, b=4)], [say("Done again.")]],
    "other": [[say("Hi.")]],
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


class Door:
    """A served runtime with a client, in a project."""

    def __init__(self, at: Stage, http: HttpClient, client: Client, project: Path) -> None:
        self.at = at
        self.http = http
        self.client = client
        self.project = project

    async def statuses(self, session_id: SessionId) -> dict[str, str]:
        return {each.server.name: each.status for each in await self.client.mcp_servers.states(session_id)}


@asynccontextmanager
async def open_door(tmp_path: Path) -> AsyncIterator[Door]:
    data, project = tmp_path / "data", tmp_path / "project"
    project.mkdir(exist_ok=True)
    async with (
        open_stage(data, SCRIPT, coding=Config(data_dir=data), directory=project) as at,
        serve_runtime(at.runtime, data) as http,
        open_client(data=data) as client,
    ):
        yield Door(at, http, client, project)


@pytest.mark.spec("X-03", "X-04")
async def test_a_client_gives_servers_reads_their_states_and_replaces_them(
    tmp_path: Path, ledger: Ledger
) -> None:
    async with open_door(tmp_path) as door:
        client, server = door.client, given_server(ledger)
        session = await client.create_session(directory=door.project, key="k", mcp_servers=(server,))
        same = await client.create_session(directory=door.project, key="k", mcp_servers=(server,))
        await client.prompt(session.id, "go")
        (state,) = await client.mcp_servers.states(session.id)
        shown = (await client.session(session.id)).mcp_servers
        replaced = await client.mcp_servers.replace(session.id, ())
        gone = (await client.session(session.id)).mcp_servers
    assert same == session
    assert state.server.environment == ("LEDGER", "PYTHONDONTWRITEBYTECODE")
    assert (state.status, state.why) == ("connected", None)
    assert shown == (state.server,)
    assert (replaced, gone) == ((), ())
    assert ledger.lines("add")


async def test_servers_that_cannot_be_used_are_refused_over_http(tmp_path: Path) -> None:
    async with open_door(tmp_path) as door:
        with pytest.raises(InvalidInput, match="needs a command"):
            await door.client.create_session(directory=door.project, mcp_servers=(NewMcpServer(name="kit"),))
        with pytest.raises(InvalidInput, match="needs a command"):
            await door.client.mcp_servers.replace(door.at.session_id, (NewMcpServer(name="kit"),))
        with pytest.raises(NotFound):
            await door.client.mcp_servers.replace(SessionId("ses_none"), ())


async def test_without_the_token_nobody_gives_servers(tmp_path: Path, ledger: Ledger) -> None:
    body = {"servers": [{"name": "kit", "command": ["kit"]}]}
    async with open_door(tmp_path) as door:
        path = f"/v1/sessions/{door.at.session_id}/mcp-servers"
        refused = await door.http.request("PUT", path, body)
        hidden = await door.http.get(path)
        created = await door.http.post("/session", {"mcpServers": body["servers"]})
        stored = (await door.at.runtime.session(door.at.session_id)).mcp_servers
    assert (refused.status, hidden.status, created.status) == (401, 401, 401)
    assert stored == ()


def as_editors_say(server: NewMcpServer) -> dict[str, Any]:
    pairs = [{"name": name, "value": value} for name, value in server.environment.items()]
    return {"name": server.name, "command": server.command[0], "args": list(server.command[1:]), "env": pairs}


@pytest.mark.spec("X-03", "X-04")
async def test_the_servers_of_an_editor_serve_its_session(tmp_path: Path, ledger: Ledger) -> None:
    server = as_editors_say(given_server(ledger))
    async with open_door(tmp_path) as door, open_editor(tmp_path / "data") as editor:
        created = await editor.request("session/new", cwd=str(door.project), mcpServers=[server])
        session_id = created["sessionId"]
        await editor.prompt(session_id, "go")
        assert await door.statuses(session_id) == {"kit": "connected"}
        assert len(ledger.lines("add")) == 1


@pytest.mark.spec("X-03")
async def test_a_load_replaces_the_servers_and_a_resume_without_a_list_keeps_them(
    tmp_path: Path, ledger: Ledger
) -> None:
    first, second = as_editors_say(given_server(ledger)), as_editors_say(given_server(ledger, "second"))
    async with open_door(tmp_path) as door:
        known = {"cwd": str(door.project)}
        async with open_editor(tmp_path / "data") as editor:
            created = await editor.request("session/new", **known, mcpServers=[first])
            known["sessionId"] = created["sessionId"]
            await editor.request("session/load", **known, mcpServers=[second])
            assert await door.statuses(created["sessionId"]) == {"second": "waiting"}
            await editor.request("session/resume", **known)
            assert await door.statuses(created["sessionId"]) == {"second": "waiting"}
            await editor.request("session/resume", **known, mcpServers=[])
            assert await door.statuses(created["sessionId"]) == {}


@pytest.mark.spec("X-03", "P-03")
async def test_after_a_restart_an_editor_that_loads_the_session_gives_the_values_again(
    tmp_path: Path, ledger: Ledger
) -> None:
    server = as_editors_say(given_server(ledger))
    async with open_door(tmp_path) as door, open_editor(tmp_path / "data") as editor:
        created = await editor.request("session/new", cwd=str(door.project), mcpServers=[server])
        session_id = created["sessionId"]
    async with open_door(tmp_path) as door, open_editor(tmp_path / "data") as editor:
        (lost,) = await door.client.mcp_servers.states(session_id)
        load = {"sessionId": session_id, "cwd": str(door.project), "mcpServers": [server]}
        await editor.request("session/load", **load)
        (found,) = await door.client.mcp_servers.states(session_id)
        await editor.prompt(session_id, "go")
    assert lost.status == "failed"
    assert "load the session again in the editor" in str(lost.why)
    assert found.status == "waiting"
    assert ledger.lines("add")


@pytest.mark.spec("X-03", "P-03")
async def test_an_open_editor_gives_the_values_to_a_server_that_was_started_anew(
    tmp_path: Path, ledger: Ledger
) -> None:
    server = as_editors_say(given_server(ledger))
    async with open_editor(tmp_path / "data") as editor:
        async with open_door(tmp_path) as door:
            created = await editor.request("session/new", cwd=str(door.project), mcpServers=[server])
            session_id = created["sessionId"]
        async with open_door(tmp_path) as door:
            (lost,) = await door.client.mcp_servers.states(session_id)
            await editor.prompt(session_id, "go")
            (found,) = await door.client.mcp_servers.states(session_id)
    assert lost.missing == ("LEDGER", "PYTHONDONTWRITEBYTECODE")
    assert (found.status, found.missing) == ("connected", ())
    assert ledger.lines("add")


@pytest.mark.spec("X-03")
async def test_an_editor_is_told_which_servers_can_be_used(tmp_path: Path) -> None:
    sse = {"type": "sse", "name": "far", "url": "https://example.org/sse", "headers": []}
    async with open_door(tmp_path) as door, open_editor(tmp_path / "data", initialized=False) as editor:
        capabilities = (await editor.initialize())["agentCapabilities"]
        error = await editor.error("session/new", cwd=str(door.project), mcpServers=[sse])
        twice = [{"name": "kit", "command": "kit", "args": [], "env": []}] * 2
        doubled = await editor.error("session/new", cwd=str(door.project), mcpServers=twice)
    assert capabilities["mcpCapabilities"] == {"http": True, "sse": False}
    assert error.code == doubled.code == INVALID_PARAMS
    assert "only stdio and http are supported" in str(error)
    assert "two MCP servers are named 'kit'" in str(doubled)


@pytest.mark.spec("P-13", "X-04")
@pytest.mark.parametrize("trusted", [False, True])
async def test_an_export_holds_servers_without_values_and_an_import_takes_them_if_it_is_trusted(
    tmp_path: Path, ledger: Ledger, trusted: bool
) -> None:
    servers = (plain_server(ledger), given_server(ledger, "second"))
    async with open_door(tmp_path) as door:
        session = await door.client.create_session(directory=door.project, mcp_servers=servers)
        await door.client.prompt(session.id, "other")
        files = await export_files(door.at.runtime, tmp_path / "files", session.id)
    assert any(FORKED_PROGRAM.encode() in content for content in files.values())
    secret = given_server(ledger).environment["LEDGER"].encode()
    assert sum(content.count(secret) for content in files.values()) == 1, "in the command of the other one"

    async with open_other_store(tmp_path / "there", serve=False) as (runtime, _):
        done = await import_from(runtime, tmp_path / "files", trusted=trusted)
        there = await runtime.session(session.id)
    remarks = [remark for each in done.taken for remark in each.remarks]
    assert there.mcp_servers == (session.mcp_servers if trusted else ())
    assert any("MCP servers" in remark for remark in remarks) == (not trusted)
