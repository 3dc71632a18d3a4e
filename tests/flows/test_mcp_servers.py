"""Which MCP servers run: who shares one, what a change of configuration ends, what is missing."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from asyncagents.config.config import McpConfig
from asyncagents.config.env import system_environment
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.conversation.status import Busy
from asyncagents.errors import ToolError
from asyncagents.llm.scripted import say
from asyncagents.tools.mcp.connection import LogTail
from asyncagents.tools.mcp.servers import open_servers
from tests.support.mcp.session import (
    TOOL_CONTEXT,
    Ledger,
    call_tool,
    hostile_server,
    local_server,
    open_mcp_session,
    server_specs,
    uninstall_mcp,
    until_dead,
)
from tests.support.wait import PATIENCE


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


async def test_directories_that_want_the_same_share_one_server(tmp_path: Path, ledger: Ledger) -> None:
    async with open_servers(tmp_path / "output") as servers:
        servers.set_servers("/a", server_specs(tmp_path, kit=local_server(ledger)))
        servers.set_servers("/b", server_specs(tmp_path, kit=local_server(ledger)))
        servers.set_servers(
            "/c", server_specs(tmp_path, kit=local_server(ledger, environment={"OTHER": "1"}))
        )
        links = [servers.clients(directory)[0] for directory in ("/a", "/b", "/c")]
        assert links[0] is links[1]
        assert links[0] is not links[2]


async def test_a_changed_configuration_ends_the_old_server_when_its_calls_are_done(
    tmp_path: Path, ledger: Ledger
) -> None:
    kit = local_server(ledger)
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {}) as at:
        project: Any = await at.runtime.workplace(tmp_path / "project")
    async with open_servers(tmp_path / "output") as servers:
        servers.set_servers("/a", server_specs(tmp_path, kit=kit))
        (client,) = servers.clients("/a")
        assert await call_tool(client, "add", a=1, b=1) == Completed("2")
        first = ledger.pid()
        async with asyncio.TaskGroup() as group:
            held = asyncio.Event()
            context = replace(TOOL_CONTEXT, report=lambda metadata: held.set())
            (nap,) = [each for each in client.tools if each.name == "nap"]
            slow = group.create_task(client.call_tool(nap, {"seconds": 0.5}, context))
            await held.wait()
            servers.set_servers("/a", server_specs(tmp_path, kit=replace(kit, timeout_seconds=50.0)))
            joined = await servers.add_tools("/a", project, working=True)
            assert "kit_add" in joined.tools
        assert slow.result() == Completed("awake")
        await until_dead(first)
        assert ledger.pid() != first
        os.kill(ledger.pid(), 0)
        servers.set_servers("/a", ())
        assert await servers.add_tools("/a", project, working=True) is project
        await until_dead(ledger.pid())
        with pytest.raises(
            ToolError, match="It is not wanted any more, or was configured anew: call it again"
        ):
            await client.call_tool(nap, {"seconds": 0}, TOOL_CONTEXT)


async def test_a_disabled_server_gets_no_client(tmp_path: Path, ledger: Ledger) -> None:
    async with open_servers(tmp_path / "output") as servers:
        servers.set_servers("/a", server_specs(tmp_path, kit=local_server(ledger, enabled=False)))
        assert servers.clients("/a") == []


def test_a_server_runs_in_its_project_or_its_configured_folder(tmp_path: Path) -> None:
    def folder(cwd: str | None) -> Path:
        (only,) = server_specs(tmp_path, kit=McpConfig(type="local", command=("x",), cwd=cwd))
        return only.folder

    home = system_environment().home
    assert [folder(None), folder("sub"), folder("/abs")] == [tmp_path, tmp_path / "sub", Path("/abs")]
    assert [folder("~"), folder("~/x")] == [home, home / "x"]


def test_the_repr_of_a_server_does_not_show_its_environment(tmp_path: Path) -> None:
    (only,) = server_specs(tmp_path, kit=McpConfig(type="local", command=("x",), environment={"A": "secret"}))
    assert repr(only) == "ServerSpec('kit')"


@pytest.mark.parametrize(
    "server",
    [
        McpConfig(type="local", command=("x", "--api-key", "sk-of-the-kit")),
        McpConfig(type="local", command=("x", "--token=sk-of-the-kit")),
        McpConfig(type="local", command=("env", "API_KEY=sk-of-the-kit", "x")),
        McpConfig(type="local", command=("x", "--header", "Authorization: Bearer sk-of-the-kit")),
        McpConfig(type="remote", url="https://me:sk-of-the-kit@example.org/mcp"),
        McpConfig(type="remote", url="https://example.org/mcp?a=1&key=sk%2Dof%2Dthe%2Dkit"),
    ],
    ids=lambda server: " ".join(server.command) or server.url,
)
def test_a_key_in_a_command_or_an_address_is_redacted(tmp_path: Path, server: McpConfig) -> None:
    (only,) = server_specs(tmp_path, kit=server)
    assert (
        LogTail(only.secrets).redact("bad argument: sk-of-the-kit, try --help")
        == "bad argument: …, try --help"
    )


async def test_a_server_without_the_mcp_extra_logs_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    uninstall_mcp(monkeypatch)
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
    assert "run `pip install 'asyncagents[mcp]'`" in caplog.text
    assert ledger.lines("start") == []


async def test_without_servers_nothing_of_the_sdk_is_loaded(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, asyncagents, asyncagents.tools.project.toolbox\n"
        "heavy = {'mcp', 'mcp_types', 'httpx2', 'anyio', 'pydantic'}\n"
        "print([name for name in sys.modules if name.split('.')[0] in heavy])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.strip() == b"[]"


@asynccontextmanager
async def answering(status: int) -> AsyncIterator[tuple[str, list[str]]]:
    """A web server that has one answer, and what it was asked with."""
    heard: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(request.headers.get("X-Key", ""))
        return web.Response(status=status, text="no")

    async with served(answer) as url:
        yield f"{url}?token=in-the-address", heard


@pytest.mark.parametrize(
    ("status", "why"),
    [(401, "HTTP status 401: set a header that it accepts under `headers`"), (500, "HTTP status 500")],
)
async def test_a_refusal_of_a_remote_server_is_reported_without_the_key(
    tmp_path: Path, status: int, why: str
) -> None:
    async with answering(status) as (url, heard), open_servers(tmp_path / "output") as servers:
        servers.set_servers(
            "/",
            server_specs(tmp_path, far=McpConfig(type="remote", url=url, headers={"X-Key": "secret-key"})),
        )
        (client,) = servers.clients("/")
        with pytest.raises(ToolError, match='MCP server "far" cannot be used') as refused:
            await client.request(lambda connection: connection.list_resources())
    assert why in str(refused.value)
    assert "secret-key" not in str(refused.value)
    assert "in-the-address" not in str(refused.value)
    assert set(heard) == {"secret-key"}


async def test_a_server_that_is_still_starting_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), open_servers(tmp_path / "output") as servers:
        servers.set_servers("/", server_specs(tmp_path, slow=hostile_server("hangs")))
        (client,) = servers.clients("/")
        client.start()
        await asyncio.to_thread(lambda: None)
    assert not client.is_connected


async def test_a_request_without_an_answer_fails_after_its_time_limit(tmp_path: Path) -> None:
    async with open_servers(tmp_path / "output") as servers:
        servers.set_servers("/", server_specs(tmp_path, bad=hostile_server("silent", timeout_seconds=2.5)))
        (client,) = servers.clients("/")
        with pytest.raises(ToolError, match=r'MCP server "bad" did not answer within 2\.5 s'):
            await client.request(lambda connection: connection.read_resource("note://never"))


OWNER = """
import asyncio, sys
from pathlib import Path
from asyncagents.tools.mcp.servers import open_servers
from tests.support.mcp.session import Ledger, call_tool, local_server, server_specs

async def main(folder):
    async with open_servers(folder / "output") as servers:
        kit = local_server(Ledger(folder / "ledger"), forked=False)
        servers.set_servers("/", server_specs(folder, kit=kit))
        spawned = await call_tool(servers.clients("/")[0], "spawn")
        print(spawned.output, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_when_our_process_is_killed_nothing_of_its_servers_is_left(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = os.pathsep.join(sys.path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path)),
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    for pid in (child, ledger.pid()):
        await until_dead(pid)


async def test_an_abort_does_not_wait_for_a_server_that_does_not_start(tmp_path: Path) -> None:
    script = {"go": [[say("Never.")]], "more": [[say("Hi.")]]}
    async with open_mcp_session(tmp_path, script, {"slow": hostile_server("hangs")}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_status(Busy)
        async with asyncio.timeout(PATIENCE):
            assert await at.abort()
        assert at.model.requests == []


class Small:
    """An MCP server by HTTP, without the SDK: refuses what it does not know, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.sessions = 0
        self.forgets = False
        self.held = asyncio.Event()
        self.go = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        match message["method"]:
            case "initialize":
                self.sessions += 1
                return self._result(message, _HELLO, {"mcp-session-id": f"s{self.sessions}"})
            case "tools/list":
                return self._result(message, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                return await self._call(message)
            case _:
                return web.Response(status=400, text="unknown")

    async def _call(self, message: dict[str, Any]) -> web.StreamResponse:
        if self.forgets:
            self.forgets = False
            return web.Response(status=400, text="who are you?")
        self.calls += 1
        if message["params"]["arguments"].get("hold"):
            self.held.set()
            await self.go.wait()
        error = {"code": -32603, "message": "the session of the database broke"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _result(
        self, message: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None
    ) -> web.Response:
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.json_response(body, headers=headers)


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "small", "version": "1"},
}


@asynccontextmanager
async def served(answer: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def test_a_call_is_made_again_only_if_it_was_refused_before_it_ran(tmp_path: Path) -> None:
    """One that failed has run, also if another was refused at the same time."""
    small = Small()
    async with served(small.answer) as url, open_servers(tmp_path / "output") as servers:
        servers.set_servers("/", server_specs(tmp_path, small=McpConfig(type="remote", url=url)))
        (client,) = servers.clients("/")
        assert await client.request(lambda connection: connection.list_tools())
        (act,) = client.tools
        with pytest.raises(ToolError, match="the session of the database broke"):
            await client.call_tool(act, {}, TOOL_CONTEXT)
        assert small.calls == 1
        assert small.sessions == 1
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(_outcome(client.call_tool(act, {"hold": True}, TOOL_CONTEXT)))
            await small.held.wait()
            small.forgets = True
            refused = group.create_task(_outcome(client.call_tool(act, {}, TOOL_CONTEXT)))
            await refused
            small.go.set()
        assert "the session of the database broke" in refused.result()
        assert "whether it took effect is unknown" in holding.result()
    assert small.calls == 3
    assert small.sessions == 2


async def _outcome(call: Coroutine[Any, Any, object]) -> str:
    try:
        result = await call
    except ToolError as error:
        return str(error)
    assert isinstance(result, Completed | Failed)
    return result.error if isinstance(result, Failed) else result.output
