"""MCP servers for flows: by stdio, by HTTP, hostile; what they noted, and how they are killed."""

import asyncio
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import system_environment
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.part import ToolPart, ToolRunning
from asyncagents.domain.event import PartUpdated
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import ToolContext
from asyncagents.llm.scripted import Script
from asyncagents.plugins.api import Plugin
from asyncagents.tools.mcp.client import McpClient, ServerSpec
from asyncagents.tools.mcp.servers import configured_servers
from tests.support.process.fork_server import forked_command
from tests.support.runtime import Stage, open_stage
from tests.support.wait import PATIENCE

SERVER = str(Path(__file__).with_name("server.py"))
HOSTILE_SERVER = str(Path(__file__).with_name("hostile_server.py"))
START = 60.0
"""Seconds: an interpreter on a busy machine takes its time."""
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Where this is forbidden, a server that loads the SDK takes seconds to start."""


class Ledger:
    """What a server wrote down: who was called with what, by which process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self, tool: str) -> list[list[str]]:
        text = self.file.read_text() if self.file.exists() else ""
        return [words for line in text.splitlines() if (words := line.split())[0] == tool]

    def pid(self) -> int:
        """Of the server that was started last."""
        return int(self.lines("start")[-1][-1])

    async def kill(self) -> None:
        """With nothing to say about it, and until it is dead."""
        await kill_process(self.pid())


async def kill_process(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    await until_dead(pid)


async def until_dead(pid: int) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        dead = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(handle, dead.set)
        try:
            async with asyncio.timeout(PATIENCE):
                await dead.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)


def forked_server() -> tuple[str, ...]:
    """Return the command of a server without its start-up."""
    return forked_command("mcp", "tests.support.mcp.server")


def local_server(ledger: Ledger, *, forked: bool = True, **more: Any) -> McpConfig:
    """Configure a server; one that is not forked is a child of the process that starts it."""
    environment = {"LEDGER": str(ledger.file), **COMPILED, **more.pop("environment", {})}
    command = forked_server() if forked else (sys.executable, SERVER)
    return McpConfig(type="local", command=command, environment=environment, **more)


def given_server(ledger: Ledger, name: str = "kit", **environment: str) -> NewMcpServer:
    """A server for a session; its ledger is a value that no row may hold."""
    variables = {"LEDGER": str(ledger.file), **COMPILED, **environment}
    return NewMcpServer(name=name, command=forked_server(), environment=variables)


def plain_server(ledger: Ledger, name: str = "kit") -> NewMcpServer:
    """A server for a session, without values."""
    command = ("/usr/bin/env", f"LEDGER={ledger.file}", *forked_server())
    return NewMcpServer(name=name, command=command)


def hostile_server(mode: str, **more: Any) -> McpConfig:
    return McpConfig(type="local", command=(sys.executable, HOSTILE_SERVER, mode), **more)


@asynccontextmanager
async def open_mcp_session(
    tmp_path: Path,
    script: Script,
    servers: Mapping[str, McpConfig],
    *,
    plugins: Sequence[Plugin] = (),
    **config: Any,
) -> AsyncIterator[Stage]:
    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    coding = Config(data_dir=tmp_path / "data", mcp=dict(servers), **config)
    async with open_stage(tmp_path / "data", script, coding=coding, plugins=plugins, directory=root) as at:
        yield at


async def until_held(at: Stage) -> None:
    """Until a tool of a server said that it has begun."""

    def says(event: PartUpdated) -> bool:
        part = event.part
        if not isinstance(part, ToolPart) or not isinstance(part.state, ToolRunning):
            return False
        return "held" in (part.state.metadata or {}).get("output", "")

    await at.listener.until(PartUpdated, says)


def uninstall_mcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra for MCP were not installed."""
    find = importlib.util.find_spec

    def find_others(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "mcp" else find(name, package)

    monkeypatch.setattr("asyncagents.tools.mcp.client.find_spec", find_others)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def open_remote_server(ledger: Ledger, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server by HTTP, once it listens."""
    async with open_http_server(SERVER, port, {**COMPILED, "LEDGER": str(ledger.file)}) as process:
        yield process


@asynccontextmanager
async def open_http_server(
    program: str, port: int, environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, program, str(port)),
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START):
            while b"running on" not in await process.stderr.readline():
                assert process.returncode is None
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


TOOL_CONTEXT = ToolContext(
    session_id=SessionId("s"), message_id=MessageId("m"), call_id=CallId("c"), agent="build", directory="/"
)


def server_specs(tmp_path: Path, **servers: McpConfig) -> tuple[ServerSpec, ...]:
    return configured_servers(system_environment(), Config(data_dir=tmp_path, mcp=dict(servers)), tmp_path)


async def call_tool(client: McpClient, tool: str, **arguments: Any) -> Completed | Failed:
    await client.request(lambda connection: connection.list_tools())
    (offer,) = [each for each in client.tools if each.name == tool]
    async with asyncio.timeout(PATIENCE):
        answer = await client.call_tool(offer, arguments, TOOL_CONTEXT)
    assert not isinstance(answer, ServerTask)
    return answer
