"""`asyncagents mcp serve` as a program that an MCP client starts: clients and servers that are killed."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.extension import ClientExtension
from mcp.client.stdio import StdioServerParameters, stdio_client

from asyncagents.domain.id import SessionId
from asyncagents.server.discovery import find_server
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.support.mcp.client import MODES, Mode, TaskTaker, call_tool, launch_task, request_task
from tests.support.process.background_client import stop_servers
from tests.support.process.command_line import PROCESS_PATIENCE, PROGRAM, Desk, open_desk, wait_for_exit
from tests.support.wait import wait_until

WAIT = ToolUse("bash", {"command": "until [ -e go ]; do sleep 0.1; done", "description": "wait"})
SCRIPT: Script = {"hi": [Reply(text="Hello.")], "wait": [Reply(text="", tools=(WAIT,)), Reply(text="Went.")]}


@asynccontextmanager
async def open_client_desk(root: Path) -> AsyncIterator[tuple[Desk, Provider]]:
    """A desk; servers that clients start are killed at the end."""
    async with open_desk(root, SCRIPT) as (desk, provider), stop_servers(desk.data):
        desk.configure(permission={"*": "allow"})
        yield desk, provider


@asynccontextmanager
async def open_client(
    desk: Desk, *, mode: Mode = "auto", extensions: Sequence[ClientExtension] = (), **env: str
) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=PROGRAM, args=["mcp", "serve"], env=desk.environment(env), cwd=desk.project
    )
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230
        async with Client(stdio_client(command, errlog=nowhere), mode=mode, extensions=extensions) as client:
            yield client


def kill_server(desk: Desk) -> None:
    listing = find_server(desk.data)
    assert listing is not None
    os.kill(listing.pid, signal.SIGKILL)


@pytest.mark.spec("X-04")
@pytest.mark.parametrize("mode", MODES)
async def test_a_task_ends_though_its_client_is_gone(tmp_path: Path, mode: Mode) -> None:
    async with open_client_desk(tmp_path) as (desk, provider):
        async with open_client(desk, mode=mode) as client:
            task = await call_tool(client, "agent_launch", prompt="wait")
            await provider.wait_for(lambda: provider.answered >= 1)
        (desk.project / "go").touch()
        async with open_client(desk, mode=mode) as client:
            (ended,) = (await call_tool(client, "agent_wait", task_ids=[task["task_id"]]))["tasks"]

    assert ended["status"] == "completed"
    assert ended["result"] == "Went."


@pytest.mark.spec("X-04", "X-11")
async def test_a_task_survives_a_kill_of_the_server_between_its_launch_and_the_first_poll(
    tmp_path: Path,
) -> None:
    async with (
        open_client_desk(tmp_path) as (desk, _),
        open_client(desk, extensions=[TaskTaker()]) as client,
    ):
        created = await launch_task(client, prompt="hi")
        kill_server(desk)

        async def read() -> Any:
            found = await request_task(client, "tasks/get", created.task_id)
            return found if found["status"] != "working" else None

        ended = await wait_until(read, seconds=PROCESS_PATIENCE, pause=0.2)
        async with desk.look() as runtime:
            messages = await runtime.messages(SessionId(created.task_id))

    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"]["result"] == "Hello."
    assert [each.info.role for each in messages if each.text] == ["user", "assistant"]


async def test_without_the_api_sessions_run_in_the_process_and_go_on_with_the_next(tmp_path: Path) -> None:
    async with open_client_desk(tmp_path) as (desk, _):
        async with open_client(desk, ASYNCAGENTS_API_ENABLED="false") as client:
            found = await call_tool(client, "agent_run", prompt="hi")
            task = await call_tool(client, "agent_launch", prompt="wait")
        (desk.project / "go").touch()
        async with open_client(desk, ASYNCAGENTS_API_ENABLED="false") as client:
            await call_tool(client, "agent_resume", task_id=task["task_id"], prompt="hi")
            (ended,) = (await call_tool(client, "agent_wait", task_ids=[task["task_id"]]))["tasks"]

    assert found["result"] == "Hello."
    assert ended["status"] == "completed"
    assert find_server(desk.data) is None


async def test_a_closed_stdin_ends_it_with_exit_code_0_and_a_signal_with_its_own(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        closed = await wait_for_exit(await desk.start("mcp", "serve", stdin=PIPE), stdin="")
        process = await desk.start("mcp", "serve", stdin=PIPE)
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert process.stdout is not None
        async with asyncio.timeout(PROCESS_PATIENCE):
            await process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PROCESS_PATIENCE):
            code = await process.wait()

    assert closed.code == 0
    assert closed.err == ""
    assert code == 128 + signal.SIGTERM


async def test_lines_that_are_no_messages_are_survived(tmp_path: Path) -> None:
    half = '{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "\\ud800"}}'
    lines = ["no json", '{"jsonrpc": "2.0"}', half, '{"jsonrpc": "2.0", "id": 7, "method": "ping"}']
    async with open_desk(tmp_path) as (desk, _):
        process = await desk.start("mcp", "serve", stdin=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        async with asyncio.timeout(PROCESS_PATIENCE):
            answers = [json.loads(await process.stdout.readline()) for _ in lines]
        process.stdin.close()
        ended = await wait_for_exit(process)

    assert ended.code == 0
    assert [each["id"] for each in answers] == [None, None, 5, 7]
    assert [each["error"]["code"] for each in answers[:3]] == [-32700, -32600, -32600]
