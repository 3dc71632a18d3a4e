"""`asyncagents serve` as processes: ports, server.json, signals, the environment; few, looked at closely."""

import asyncio
import signal
import stat
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec import Struct

from asyncagents.config.api import ApiConfig, api_config
from asyncagents.config.env import Environment
from asyncagents.domain.shape import encode
from asyncagents.llm.scripted import say
from asyncagents.server.discovery import LISTING_FILE, find_server
from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.delegation import launch_task, open_delegation_stage, task_named, wait_until_quiet
from tests.support.process.command_line import PROCESS_PATIENCE, Desk, open_desk, wait_for_exit
from tests.support.process.server import (
    TRIES,
    ServerProcess,
    accepts_connections,
    hold_ports,
    listening_addresses,
    open_server_process,
    open_stalled_request,
    read_listing,
)
from tests.support.wait import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "many words " * 200_000
"""More than the buffers of a connection hold."""


def looking(data: Path) -> Script:
    """A model that wants to see who serves."""
    look = ToolUse(name="bash", args={"command": f"cat {data / LISTING_FILE}", "description": "look"})
    return {"Look around": [Reply(text="", tools=(look,)), Reply(text="Seen.")]}


async def ended_task(desk: Desk) -> Any:
    """From before the server began, with a prompt of many words."""
    scenes = {"go": [[launch_task("A", WORDS)], [say("Off.")]]}
    async with open_delegation_stage(desk.data, scenes, directory=desk.project) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        return msgspec.json.decode(encode(await task_named(at.runtime, "A")))


async def wanted(desk: Desk) -> str:
    """A prompt that waits for whoever works."""
    async with desk.look() as runtime:
        session, _ = await runtime.begin("Look around", directory=desk.project, model="local/m")
    return session.id


async def said_in(desk: Desk, session_id: Any) -> str:
    async with desk.look() as runtime:
        return "\n".join(str(entry) for entry in await runtime.messages(session_id))


class Life(Struct, kw_only=True):
    """What was seen of one server from its start to its end by SIGTERM."""

    first: int
    """It was told this port, which was taken, as was the next one."""
    pid: int
    listing: dict[str, Any]
    mode: int
    is_found: bool
    health: dict[str, Any]
    bound: list[str]
    before: Any
    after: Any
    """The task from before, as it was and as the server shows it."""
    tool: str
    second: tuple[int, str]
    """How another server on the same data ended."""
    stream: list[str]
    log: int
    """How many bytes of an answer came after nobody could connect any more."""
    code: int
    is_listed: bool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def life(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    root = tmp_path_factory.mktemp("serve")
    async with open_desk(root, looking(root / "data")) as (desk, provider):
        desk.configure(permission={"*": "allow", "guarded_place": "allow"})
        before, session_id = await ended_task(desk), await wanted(desk)
        with hold_ports(2) as first:
            async with open_server_process(desk, env={"ASYNCAGENTS_API_PORT": str(first)}) as server:
                await provider.wait_for(lambda: provider.answered == 2)
                second = await desk.run("serve", "--port", "0")
                seen = Life(
                    first=first,
                    pid=server.process.pid,
                    listing=read_listing(desk.data),
                    mode=stat.S_IMODE((desk.data / LISTING_FILE).stat().st_mode),
                    is_found=find_server(desk.data) is not None,
                    health=await server.client.json("/v1/health"),
                    bound=listening_addresses(server.listing.port),
                    before=before,
                    after=await server.client.json(f"/v1/tasks/{before['sessionID']}"),
                    tool="",
                    second=(second.code, second.err),
                    stream=[],
                    log=0,
                    code=-1,
                    is_listed=True,
                )
                await _end(server, seen)
        seen.is_listed, seen.tool = (desk.data / LISTING_FILE).exists(), await said_in(desk, session_id)
        yield seen


async def _end(server: ServerProcess, seen: Life) -> None:
    """With a stream that is open, and an answer that nobody has read."""
    path = f"/v1/tasks/{seen.before['sessionID']}/logs"

    async def refuses() -> bool:
        return not await accepts_connections(server.listing.port)

    async with server.client.stream() as listener, open_stalled_request(server.listing.port, path) as unread:
        await listener.until("snapshot")
        server.process.send_signal(signal.SIGTERM)
        seen.stream = [each.type for each in await listener.until_end()]
        async with asyncio.timeout(PROCESS_PATIENCE):
            await wait_until(refuses)
            seen.log = len(await unread.read())
    seen.code = await server.end()


@pytest.mark.spec("H-01", "H-10")
async def test_server_starts_on_plugin_init(life: Life) -> None:
    assert life.bound == ["127.0.0.1"]
    assert life.health["status"] == "ok"
    assert str(life.listing["url"]) in life.tool, "the first tool call finds it listening"
    assert "Seen." in life.tool


@pytest.mark.spec("H-01")
async def test_server_retries_next_port_on_collision(life: Life, tmp_path: Path) -> None:
    """And one that is killed leaves a server.json that nobody believes."""
    assert life.listing["port"] == life.first + 2
    async with open_desk(tmp_path) as (desk, _):
        with hold_ports(TRIES) as first:
            async with open_server_process(desk, "--port", str(first)) as server:
                port = server.listing.port
                health = await server.client.json("/v1/health")
                server.process.kill()
                told = (await wait_for_exit(server.process)).err
        taken = f"port {first} is in use by another program: this server takes {port}"
        assert told == f"warning: {taken}; --port chooses another\n"
        assert port not in range(first, first + TRIES)
        assert health["status"] == "ok"

        assert (desk.data / LISTING_FILE).exists()
        assert find_server(desk.data) is None
        async with open_server_process(desk, "--port", "0") as server:
            assert find_server(desk.data) == server.listing
            code = await server.stop(signal.SIGINT)
        assert code == 0
        assert (desk.data / LISTING_FILE).exists() is False


@pytest.mark.spec("H-01")
async def test_the_port_is_5165_unless_the_environment_sets_another(tmp_path: Path) -> None:
    def told(**variables: str) -> ApiConfig:
        here = Environment(variables=variables, home=tmp_path, platform="linux", cwd=tmp_path)
        return api_config(here)

    assert told() == ApiConfig(enabled=True, port=5165)
    assert told(ASYNCAGENTS_API_PORT="6000", ASYNCAGENTS_API_ENABLED="true").port == 6000


@pytest.mark.spec("H-02")
async def test_server_writes_discovery_file_on_start(life: Life) -> None:
    assert life.listing.keys() >= {"port", "pid", "startedAt", "url", "token"}
    assert life.listing["pid"] == life.pid
    assert life.mode == 0o600


@pytest.mark.spec("H-02")
async def test_server_stops_gracefully_on_process_exit(life: Life) -> None:
    assert life.stream[0] == "snapshot", "and it ended as a stream ends that is whole"
    assert life.log > len(WORDS)
    assert life.code == 0
    assert life.is_listed is False


@pytest.mark.spec("H-10")
async def test_server_is_disabled_via_environment_variable(tmp_path: Path) -> None:
    async with open_desk(tmp_path, looking(tmp_path / "data")) as (desk, provider):
        desk.configure(permission={"*": "allow", "guarded_place": "allow"})
        session_id = await wanted(desk)
        with hold_ports(0) as first:
            off = {"ASYNCAGENTS_API_ENABLED": "false", "ASYNCAGENTS_API_PORT": str(first)}
            process = await desk.start("serve", env=off)
            await provider.wait_for(lambda: provider.answered == 2)
            is_listed, is_there = (desk.data / LISTING_FILE).exists(), await accepts_connections(first)
            process.send_signal(signal.SIGTERM)
            done = await wait_for_exit(process)
        assert is_listed is False
        assert is_there is False
        assert done.code == 0
        assert done.out == ""
        assert "ASYNCAGENTS_API_ENABLED=false" in done.err
        assert "No such file" in await said_in(desk, session_id)


@pytest.mark.spec("H-02")
async def test_server_json_created_on_server_start(life: Life) -> None:
    listing = life.listing
    assert all(isinstance(listing[name], int) for name in ("port", "pid"))
    assert datetime.fromisoformat(listing["startedAt"]).tzinfo is not None
    assert listing["url"] == f"http://127.0.0.1:{listing['port']}"


@pytest.mark.spec("H-02")
async def test_server_json_deleted_on_graceful_shutdown(life: Life) -> None:
    assert not life.is_listed


@pytest.mark.spec("H-02", "H-07")
async def test_server_json_enables_external_tool_discovery(life: Life) -> None:
    """What the fixture asked, it asked at `url`."""
    assert life.is_found
    assert life.health["status"] == "ok"
    assert life.health["taskCount"] == 1
    assert life.health["uptime"] > 0


@pytest.mark.spec("H-09")
async def test_history_is_in_the_answers_of_a_new_process(life: Life) -> None:
    assert life.after == life.before


@pytest.mark.spec("H-02")
async def test_a_second_server_on_the_same_data_exits_and_names_the_first(life: Life) -> None:
    code, said = life.second
    assert code == 4
    assert life.listing["url"] in said
