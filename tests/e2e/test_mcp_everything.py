"""A real MCP server that was not written here, through a session, killed in the middle and started again."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from asyncagents.config.config import McpConfig
from asyncagents.domain.conversation.part import ToolPart, ToolRunning
from asyncagents.domain.event import PartUpdated
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import Script, call, say
from tests.support.mcp.session import free_port, kill_process, open_mcp_session
from tests.support.process.npm import SECONDS, have_npm, install_package
from tests.support.runtime import Stage

PACKAGE, VERSION = "@modelcontextprotocol/server-everything", "2026.8.31"
LONG = {"duration": 2, "steps": 4}
SCRIPT: Script = {
    "go": [
        [call("every_get-sum", a=20, b=22)],
        [call("every_trigger-long-running-operation", **LONG)],
        [call("every_get-tiny-image")],
        [say("Done.")],
    ],
    "more": [[call("every_echo", message="still here")], [say("Done.")]],
}

pytestmark = pytest.mark.timeout(SECONDS + 120)


async def program() -> tuple[str, str]:
    folder = await install_package(PACKAGE, VERSION)
    node = shutil.which("node")
    assert node is not None, f"npm is at {have_npm()}, and no node"
    return node, str(folder / "dist" / "index.js")


def told(at: Stage) -> list[str]:
    return [each.output for each in at.request_messages() if isinstance(each, ToolTurn)]


async def until_halfway(at: Stage) -> None:
    def says(event: PartUpdated) -> bool:
        match event.part:
            case ToolPart(state=ToolRunning(metadata=dict() as metadata)):
                return " of 4" in str(metadata.get("output"))
            case _:
                return False

    await at.listener.until(PartUpdated, says)


def below(parent: int, program: str) -> list[int]:
    """Our descendants that run the program."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text()
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found, parents = [], [parent]
    while parents:
        more = children.pop(parents.pop(), [])
        parents += more
        found += more
    return [pid for pid in found if _runs(pid, program)]


def _runs(pid: int, program: str) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return len(words) > 1 and words[1] == program.encode()
    return False


@pytest.mark.spec("X-04", "A-06")
async def test_a_foreign_server_by_stdio_is_killed_in_the_middle_and_started_again(tmp_path: Path) -> None:
    command = await program()
    every = McpConfig(type="local", command=command)
    async with open_mcp_session(tmp_path, SCRIPT, {"every": every}) as at:
        await at.runtime.send(at.session_id, "go")
        await until_halfway(at)
        (first,) = below(os.getpid(), command[1])
        await kill_process(first)
        await at.runtime.wait(at.session_id)
        (second,) = below(os.getpid(), command[1])
        await kill_process(second)
        await at.prompt("more")
        (third,) = below(os.getpid(), command[1])
        workplace = await at.runtime.workplace(tmp_path / "project")
        assert workplace.mcp_resources is not None
        (text,) = await workplace.mcp_resources.read_resource("every", "demo://resource/dynamic/text/1")
        assert "every:simple-prompt" in [
            each.command for each in await workplace.mcp_resources.list_prompts()
        ]
    assert len({first, second, third}) == 3
    assert below(os.getpid(), command[1]) == []
    assert "Resource 1" in (text.text or "")
    check(told(at))


def check(results: list[str]) -> None:
    total, long, image, echo = results
    assert "42" in total
    assert "Long running operation completed" in long
    assert "[image image/png, " in image
    assert "still here" in echo


@pytest.mark.spec("X-04")
async def test_a_foreign_server_by_http_is_killed_in_the_middle_and_found_again(tmp_path: Path) -> None:
    port = free_port()
    every = McpConfig(type="remote", url=f"http://127.0.0.1:{port}/mcp")
    async with open_mcp_session(tmp_path, SCRIPT, {"every": every}) as at:
        async with by_http(port) as process:
            await at.runtime.send(at.session_id, "go")
            await until_halfway(at)
            await kill_process(process.pid)
            async with by_http(port):
                await at.runtime.wait(at.session_id)
        async with by_http(port):
            await at.prompt("more")
    total, *_, echo = told(at)
    assert "42" in total
    assert "still here" in echo


@asynccontextmanager
async def by_http(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(*await program(), "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"listening on port" not in (line := await process.stderr.readline()):
                assert line, "it ended"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
