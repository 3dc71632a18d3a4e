"""Other users of this machine: what they may not read without the token, and what they still may."""

import asyncio
import os
import pwd
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents import ScriptedModel
from asyncagents.server.route import Route
from asyncagents.server.routes import ROUTES
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.hostile.other_user import OTHER_UID, open_server_as, request_as, takes_root
from tests.support.http.raw import RawConnection, Target, has_ipv6, lan_address, open_target
from tests.support.runtime import open_runtime

STATUS = (
    "/v1/stats",
    "/v1/tasks",
    "/v1/tasks/x",
    "/v1/tasks/x/logs",
    "/v1/task-groups/x",
    "/v1/events",
    "/v1/sessions/x/why",
)
HERE = "127.0.0.77"
"""Where no other program takes the port that was just given back."""
ANY_USER = ("/v1/health", "/ready", "/metrics", "/doc")


def _tokenless() -> list[Route]:
    return [route for route in ROUTES if route.access not in {"token", "signature"}]


def _path(route: Route) -> str:
    return "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))


@asynccontextmanager
async def _listening(data: Path, hostname: str) -> AsyncIterator[Target]:
    """At another address than 127.0.0.1."""
    async with (
        open_runtime(data, model=ScriptedModel({})) as runtime,
        open_server(runtime, data, ServerOptions(hostname=hostname, port=0), directory=data) as listing,
    ):
        yield Target(runtime, listing)


async def _connect_from(at: Target, address: str) -> RawConnection:
    raw = socket.socket()
    raw.setblocking(False)
    raw.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", at.port))
    return RawConnection(*await asyncio.open_connection(sock=raw))


@pytest.mark.spec("Z-07")
async def test_every_route_without_a_token_is_of_the_status_api_or_for_any_user() -> None:
    assert {_path(route) for route in _tokenless()} == {*STATUS, *ANY_USER}


@takes_root
@pytest.mark.spec("Z-07")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_another_user_reads_nothing_of_the_status_api_without_the_token(
    tmp_path: Path, method: str
) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    async with open_target(tmp_path) as at:
        heard = {
            path: (await request_as(OTHER_UID, "127.0.0.1", at.port, [at.build_request(method, path)]))[0]
            for path in STATUS
        }

    assert {path: each.status for path, each in heard.items()} == dict.fromkeys(STATUS, 401)
    for each in heard.values() if method == "GET" else ():
        said = each.body.decode()
        assert each.error_name == "UnauthorizedError"
        assert f"{name} (uid {os.geteuid()})" in said
        assert "Bearer" in said
        assert "www-authenticate" in each.headers


@takes_root
@pytest.mark.spec("Z-07")
async def test_any_user_reads_health_readiness_metrics_and_the_document(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        requests = [at.build_request("GET", path) for path in ANY_USER]
        heard = await request_as(OTHER_UID, "127.0.0.1", at.port, requests)

    assert [each.status for each in heard] == [200, 200, 200, 200]


@takes_root
@pytest.mark.spec("Z-07")
async def test_another_user_with_the_token_reads_all_of_it(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        ticket = b64encode(f"x:{at.token}".encode()).decode()
        requests = [
            at.build_request("GET", "/v1/tasks"),
            at.build_request("GET", "/v1/tasks", at.bearer),
            at.build_request("GET", f"/v1/tasks?auth_token={ticket}"),
            at.build_request("GET", "/v1/tasks"),
            at.build_request("GET", f"/v1/events?auth_token={ticket}"),
        ]
        heard = await request_as(OTHER_UID, "127.0.0.1", at.port, requests)

    assert [each.status for each in heard] == [401, 200, 200, 401, 200]


@takes_root
@pytest.mark.spec("Z-07")
async def test_no_other_spelling_of_a_route_lets_another_user_in(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        host = f"Host: {at.host}\r\n"
        spellings = [
            f"GET /v1/tasks HTTP/1.0\r\n{host}\r\n",
            f"GET /v1/tasks HTTP/1.1\r\n{host}Sec-Fetch-Site: none\r\n\r\n",
            f"GET /v1/tasks HTTP/1.1\r\n{host}Origin: http://{at.host}\r\n\r\n",
            f"GET /v1/tasks HTTP/1.1\r\n{host}Authorization: Bearer\r\n\r\n",
            f"GET /v1/tasks? HTTP/1.1\r\n{host}\r\n",
            f"GET /v1/tasks#x HTTP/1.1\r\n{host}\r\n",
            f"GET /v1/tasks HTTP/1.1\r\n{host}X-HTTP-Method-Override: OPTIONS\r\n\r\n",
            f"GET /v1//tasks HTTP/1.1\r\n{host}\r\n",
            f"GET /v1/tasks/ HTTP/1.1\r\n{host}\r\n",
            f"GET /V1/Tasks HTTP/1.1\r\n{host}\r\n",
            f"GET /%761/tasks HTTP/1.1\r\n{host}\r\n",
            f"GET /v1/health/../tasks HTTP/1.1\r\n{host}\r\n",
            f"GET /v1/health;/tasks HTTP/1.1\r\n{host}\r\n",
            f"GET http://{at.host}/v1/tasks HTTP/1.1\r\n{host}\r\n",
            f"GET //{at.host}/v1/tasks HTTP/1.1\r\n{host}\r\n",
            f"POST /v1/tasks HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n",
            "GET /v1/tasks HTTP/1.0\r\n\r\n",
            f"OPTIONS /v1/tasks HTTP/1.1\r\n{host}\r\n",
        ]
        heard = [
            (each, (await request_as(OTHER_UID, "127.0.0.1", at.port, [each.encode()]))[0])
            for each in spellings
        ]

    through = {each: answer for each, answer in heard if answer.status == 200 or b"tasks" in answer.body}
    assert not through
    assert [answer.status for _, answer in heard] == [401] * 7 + [404] * 6 + [400, 404, 405, 403, 204]


@takes_root
@pytest.mark.spec("Z-07")
@pytest.mark.parametrize(
    ("hostname", "address"),
    [
        ("::1", "::1"),
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
async def test_users_are_distinguished_in_every_address_family(
    tmp_path: Path, hostname: str, address: str
) -> None:
    if not has_ipv6():
        pytest.skip("there is no IPv6 here")
    async with _listening(tmp_path, hostname) as at:
        requests = [at.build_request("GET", path) for path in ("/v1/tasks", "/v1/stats", "/metrics")]
        stranger = await request_as(OTHER_UID, address, at.port, requests)
        own = await request_as(os.geteuid(), address, at.port, requests)

    assert [each.status for each in stranger] == [401, 401, 200]
    assert [each.status for each in own] == [200, 200, 200]


@takes_root
@pytest.mark.spec("Z-07")
async def test_the_server_of_a_plain_user_answers_that_user_and_root() -> None:
    """It looks users up without privileges."""
    async with open_server_as(OTHER_UID) as port:
        request = f"GET /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        heard = {
            uid: (await request_as(uid, "127.0.0.1", port, [request]))[0]
            for uid in (OTHER_UID, 0, 4321, 65534)
        }

    assert {uid: each.status for uid, each in heard.items()} == {
        OTHER_UID: 200,
        0: 200,
        4321: 401,
        65534: 401,
    }
    assert f"uid {OTHER_UID}" in heard[4321].body.decode()


@takes_root
async def test_no_auth_allows_requests_of_every_user_of_the_machine(tmp_path: Path) -> None:
    """That is what `--no-auth` says."""
    async with open_target(tmp_path, auth=False) as at:
        requests = [at.build_request("GET", path) for path in ("/v1/tasks", "/session")]
        heard = await request_as(OTHER_UID, "127.0.0.1", at.port, requests)

    assert [each.status for each in heard] == [200, 200]


@takes_root
@pytest.mark.spec("Z-07")
async def test_a_port_reused_by_another_user_gains_no_access(tmp_path: Path) -> None:
    """From the same address and port as a program that was let in a moment ago."""
    async with open_target(tmp_path) as at:
        async with await _connect_from(at, HERE) as own:
            port = own.writer.get_extra_info("sockname")[1]
            await own.send(at.build_request("GET", "/v1/tasks"))
            let_in = await own.read_response()
            own.reset()
        heard = await request_as(
            OTHER_UID, f"127.0.0.1@{HERE}:{port}", at.port, [at.build_request("GET", "/v1/tasks")]
        )

    assert let_in.status == 200
    assert heard[0].status == 401


@pytest.mark.spec("Z-07")
async def test_a_request_from_a_network_address_requires_the_token(
    tmp_path: Path,
) -> None:
    """A router may be told to hand on packets for 127.0.0.1; they keep the address of their sender."""
    paths, address = ("/metrics", "/v1/stats", "/v1/tasks", "/v1/health"), lan_address()
    if address == "192.0.2.1":
        pytest.skip("this machine has no address in a network")
    async with open_target(tmp_path) as at:
        heard = {}
        for path in paths:
            async with await _connect_from(at, address) as wire:
                await wire.send(at.build_request("GET", path))
                heard[path] = (await wire.read_response()).status

    assert list(heard.values()) == [401, 401, 401, 200]
