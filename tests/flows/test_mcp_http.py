"""The MCP server of `asyncagents serve`: both eras over HTTP, and the checks before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from asyncagents.cli.serve.mcp_mount import PATH, open_mcp_mount
from asyncagents.config.config import Config
from asyncagents.llm.scripted import Script, say
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.mcp.client import MODES, Mode, call_tool
from tests.support.runtime import open_stage

SCRIPT: Script = {"hi": [[say("Hello.")]]}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def open_listing(tmp_path: Path) -> AsyncIterator[tuple[Listing, Path]]:
    data, project = tmp_path / "data", tmp_path / "project"
    project.mkdir(exist_ok=True)
    async with (
        open_stage(data, SCRIPT, coding=Config(data_dir=data), directory=project) as at,
        open_mcp_mount(at.runtime, data, project) as mount,
        open_server(at.runtime, data, ServerOptions(port=0), directory=project, mounts=(mount,)) as listing,
    ):
        yield listing, project


@asynccontextmanager
async def open_http_client(listing: Listing, mode: Mode, query: str = "") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {listing.token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{listing.url}{PATH}{query}", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.spec("X-04")
@pytest.mark.parametrize("mode", MODES)
async def test_agents_run_over_http(tmp_path: Path, mode: Mode) -> None:
    async with open_listing(tmp_path) as (listing, _), open_http_client(listing, mode) as client:
        found = await call_tool(client, "agent_run", prompt="hi")

    assert found["result"] == "Hello."


async def test_the_query_names_another_project(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with open_listing(tmp_path) as (listing, _):
        async with open_http_client(listing, "auto", f"?directory={other}") as client:
            there = await call_tool(client, "agent_run", prompt="hi")
        async with open_http_client(listing, "auto") as client:
            here = await call_tool(client, "agent_list")

    assert there["result"] == "Hello."
    assert there["task_id"] not in {each["task_id"] for each in here["tasks"]}


@pytest.mark.spec("X-04", "Z-07")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_requests_without_the_token_of_strange_hosts_or_origins_are_refused(
    tmp_path: Path, method: str
) -> None:
    async with open_listing(tmp_path) as (listing, _), httpx2.AsyncClient() as http:
        token = {"authorization": f"Bearer {listing.token}"}
        strange: list[tuple[dict[str, str], int]] = [
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({**token, "host": "evil.example"}, 403),
            ({**token, "origin": "http://evil.example"}, 403),
            ({**token, "sec-fetch-site": "cross-site"}, 403),
        ]
        for headers, status in strange:
            answer = await http.request(
                method, f"{listing.url}{PATH}", headers=headers, json=PING if method == "POST" else None
            )
            assert answer.status_code == status, (headers, answer.text)
        put = await http.put(f"{listing.url}{PATH}", headers=token)
        options = await http.options(f"{listing.url}{PATH}", headers=token)

    assert put.status_code == 405
    assert options.status_code == 204


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with open_listing(tmp_path) as (listing, _), httpx2.AsyncClient() as http:
        answer = await http.post(
            f"{listing.url}{PATH}",
            headers={"authorization": f"Bearer {listing.token}", "content-type": "application/json"},
            content=b" " * (11 * 1024 * 1024),
        )

    assert answer.status_code == 413


async def test_a_directory_that_is_no_absolute_path_is_an_error(tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"name": "agent_list", "arguments": {}, "_meta": meta}
    async with open_listing(tmp_path) as (listing, _), httpx2.AsyncClient() as http:
        answer = await http.post(
            f"{listing.url}{PATH}?directory=x",
            headers={
                "authorization": f"Bearer {listing.token}",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tools/call",
                "mcp-name": "agent_list",
                "accept": "application/json, text/event-stream",
            },
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        )

    assert answer.json()["error"]["message"] == "directory must be an absolute path, such as /home/me/project"
