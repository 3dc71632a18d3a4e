"""Runtimes behind a real server in this process, each with a client of that server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.load import load_config
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import Script, ScriptedModel, say
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.delegation import RequestScript, open_delegation_stage
from tests.support.git import create_repository
from tests.support.http.client import HttpClient, open_http_client, open_session
from tests.support.runtime import Stage, open_runtime, open_stage

NO_HEARTBEAT = 3_600.0
"""Seconds of silence before a heartbeat: longer than any test runs."""


class StageClient(HttpClient):
    """A client of the server before a stage."""

    def __init__(
        self, http: ClientSession, listing: Listing, stage: Stage, *, sends_token: bool = True
    ) -> None:
        super().__init__(http, listing, sends_token=sends_token)
        self.stage = stage
        self.runtime = stage.runtime


class ProjectClient(HttpClient):
    """A client of a server that reads the files of a project."""

    def __init__(self, http: ClientSession, listing: Listing, runtime: Runtime, root: Path) -> None:
        super().__init__(http, listing)
        self.runtime = runtime
        self.root = root


@asynccontextmanager
async def serve_runtime(
    runtime: Runtime, data: Path, *, silence: float = NO_HEARTBEAT, **listening: Any
) -> AsyncIterator[HttpClient]:
    """Serve any runtime on a free port; the client sends no token by itself."""
    options = ServerOptions(port=0, idle_heartbeat_seconds=silence, **listening)
    async with (
        open_server(runtime, data, options, directory=data) as listing,
        open_http_client(listing) as client,
    ):
        yield client


@asynccontextmanager
async def serve_delegation(
    data: Path, script: RequestScript, *tools: AnyTool, silence: float = NO_HEARTBEAT, **more: Any
) -> AsyncIterator[StageClient]:
    """Serve a stage where agents launch agents; the client sends no token by itself."""
    options = ServerOptions(port=0, idle_heartbeat_seconds=silence)
    async with (
        open_delegation_stage(data, script, *tools, **more) as at,
        open_server(at.runtime, data, options, directory=data) as listing,
        open_session() as http,
    ):
        yield StageClient(http, listing, at, sends_token=False)


@asynccontextmanager
async def serve_stage(
    data: Path, script: Script | ScriptedModel, *, tools: Sequence[AnyTool] = (), **more: Any
) -> AsyncIterator[StageClient]:
    """Serve a stage with one session; the client sends the token."""
    async with (
        open_stage(data, script, tools=tools, **more) as at,
        open_session() as http,
        open_server(at.runtime, data, ServerOptions(port=0), directory=data) as listing,
    ):
        yield StageClient(http, listing, at)


GREETINGS = {"hi": [[say("Hello.")]], "again": [[say("Again.")]], "more": [[say("More.")]]}


@asynccontextmanager
async def serve_coding_project(
    tmp_path: Path, script: Any = GREETINGS, **config: Any
) -> AsyncIterator[StageClient]:
    """Serve a stage whose session is in a git repository of its own."""
    root = tmp_path / "project"
    create_repository(root, {})
    settings = Config(data_dir=tmp_path / "data", **config)
    async with serve_stage(tmp_path / "data", ScriptedModel(script), coding=settings, directory=root) as at:
        yield at


async def create_session(at: HttpClient, tmp_path: Path, **body: Any) -> str:
    """Create a session in the project; returns its path."""
    response = await at.post(f"/session?directory={tmp_path}/project", body)
    return f"/session/{response.json['id']}"


@asynccontextmanager
async def serve_project(tmp_path: Path, root: Path) -> AsyncIterator[ProjectClient]:
    """Serve a runtime that reads the files of each directory, as `asyncagents serve` does."""
    data = tmp_path / "data"
    loaded = load_config(system_environment(), directory=root, data_dir=data)
    async with (
        open_runtime(data, config=loaded.config, coding="each directory", serve=False) as runtime,
        open_session() as http,
        open_server(runtime, data, ServerOptions(port=0), directory=root) as listing,
    ):
        yield ProjectClient(http, listing, runtime, root)
