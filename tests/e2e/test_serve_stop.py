"""`asyncagents serve` is told to stop, whoever still talks to it; and what others see of it meanwhile."""

import asyncio
import json
import signal
import socket
import stat
from pathlib import Path

import pytest

from asyncagents.server.discovery import find_server
from asyncagents.testing.provider import Reply, ToolUse
from tests.support.http.raw import RawConnection
from tests.support.kills.serve_client import (
    build_client,
    create_prompted_session,
    prompt_body,
)
from tests.support.kills.serve_kills import descendants, until_dead
from tests.support.process.command_line import PROCESS_PATIENCE, open_desk
from tests.support.process.server import DeskServer, open_desk_server
from tests.support.wait import wait_until

SLEEPS = Reply(text="", tools=(ToolUse("bash", {"command": "sleep 600 | sleep 600"}),))


class Door:
    """Raw connections to a server."""

    def __init__(self, server: DeskServer, token: str) -> None:
        self._port = int(server.url.rpartition(":")[2])
        self._token = token

    async def send(
        self, method: str, path: str, body: bytes = b"", *, more: int = 0, buffer: int = 0
    ) -> RawConnection:
        """`more`: so much of the body is promised, and never comes; `buffer`: so little is ever read."""
        raw = socket.socket()
        raw.setblocking(False)
        if buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._port))
        wire = RawConnection(*await asyncio.open_connection(sock=raw, limit=buffer or 2**16))
        head = [
            f"{method} {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self._token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body) + more}",
        ]
        await wire.send("\r\n".join([*head, "", ""]).encode() + body)
        return wire


async def test_a_stop_is_quick_with_waiting_listening_and_stalled_clients(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Sleep": [SLEEPS], "Long": [Reply(text="x" * 8_000_000)]}) as (desk, _):
        desk.configure(permission={"*": "allow"})
        async with open_desk_server(desk) as server:
            token = _token(desk.data)
            door, client = Door(server, token), build_client(desk.data)
            sleeping, long = (
                await create_prompted_session(client, "Sleep"),
                await create_prompted_session(client, "Long"),
            )
            await _until_child(server)
            wires = [
                await door.send("GET", "/v1/events"),
                await door.send("GET", f"/v1/sessions/{sleeping}/events"),
                await door.send("POST", f"/session/{sleeping}/message", prompt_body("And?")),
                await door.send("POST", "/async-tool/result", b"{", more=1000),
                await door.send("GET", f"/session/{long}/message", buffer=4096),
            ]
            wires[-1].reader._transport.pause_reading()  # type: ignore[attr-defined]
            assert [(await wire.read_response()).status for wire in wires[:2]] == [200, 200]
            children = descendants(server.process.pid)
            said = await server.end()
            waited = await wires[2].read_response()
            for wire in wires:
                await wire.__aexit__()
        await until_dead(children)

    assert server.process.returncode == 0, "it would be 143 if the stop had taken more than 5 s"
    assert said == "stopping\n"
    assert children
    assert waited.status == 503
    assert not (desk.data / "server.json").exists()


async def test_a_second_signal_ends_it_at_once_and_the_next_server_goes_on(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Sleep": [SLEEPS]}) as (desk, _):
        desk.configure(permission={"*": "allow"})
        async with open_desk_server(desk) as server:
            client = build_client(desk.data)
            session_id = await create_prompted_session(client, "Sleep")
            await _until_child(server)
            wire = await Door(server, _token(desk.data)).send("POST", "/async-tool/result", b"{", more=1000)
            children = descendants(server.process.pid)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.stderr is not None
            assert await server.process.stderr.readline() == b"stopping\n"
            said = await server.end()
            await wire.__aexit__()
        await until_dead(children)
        left = find_server(desk.data)
        async with open_desk_server(desk) as again:
            status = await client.ask("GET", f"/session/{session_id}")
            await again.end()

    assert server.process.returncode == 143
    assert said == ""
    assert left is None
    assert status["id"] == session_id
    assert again.process.returncode == 0


@pytest.mark.parametrize("words", [("--hostname", "0.0.0.0"), ("--hostname", "::")])
async def test_serve_without_auth_requires_a_loopback_address(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with open_desk(tmp_path) as (desk, _):
        ran = await desk.run("serve", "--no-auth", "--port", "0", *words)

    assert ran.code == 2
    assert ran.out == ""
    assert "--no-auth requires a loopback address: drop --no-auth or --hostname" in ran.err


async def test_the_token_is_not_shown_in_process_lists_or_output(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), open_desk_server(desk) as server:
        token = _token(desk.data)
        process = Path(f"/proc/{server.process.pid}")
        seen = [(process / name).read_text() for name in ("cmdline", "environ", "comm")]
        doctor = await desk.run("doctor")
        modes = [stat.S_IMODE((desk.data / name).stat().st_mode) for name in ("server.json", "token")]
        said = await server.end()

    assert modes == [0o600, 0o600]
    assert not [text for text in (*seen, doctor.out, doctor.err, said, server.url) if token in text]


def _token(data: Path) -> str:
    return str(json.loads((data / "server.json").read_text())["token"])


async def _until_child(server: DeskServer) -> None:
    """The server starts them by itself."""
    await wait_until(lambda: len(descendants(server.process.pid)) >= 2, seconds=PROCESS_PATIENCE)
