"""Odd requests to the status API and to approvals: other users, proxies, strange methods and targets."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.server.http.peer import UserLookup
from asyncagents.server.http.socket_owner import SocketEnds, SocketOwners
from tests.support.hostile.other_user import OTHER_UID, request_as, takes_root
from tests.support.http.raw import Target, open_target
from tests.support.http.sdk import serve_approvals

# What a stranger sends, and that it is told nothing by: none is a way around the route that wants its user.
TARGETS = (
    "/v1/tasks", "/v1/tasks?", "/v1/tasks#x", "/v1/tasks?auth_token=", "/v1/tasks?auth_token=Og==",
    "//v1/tasks",
    "/v1//tasks", "/v1/tasks/", "/v1/%74asks", "/v1/./tasks", "/v1/x/../tasks", "/V1/tasks", "/v1/tasks;x",
    "/v1/tasks%2f", "/v1/tasks%3f", "/v1\\tasks", "/v1/events", "/v1/events?since=0", "/v1/health/../tasks",
    "/doc/../v1/tasks", "/metrics%2f..%2fv1%2ftasks", "http://127.0.0.1/v1/tasks", "*", "/v1/approvals",
    "/v1/approvals?directory=/", "/v1/approvals/x",
)  # fmt: skip
# Each is sent by something that hands requests of others on.
OF_PROXIES = (
    "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Prefix", "X-Forwarded-User", "X-Forwarded-Ssl",
    "X-Forwarded-By", "X-Forwarded", "x-FORWARDED-for", "X_Forwarded_For", "X-Real-IP", "Client-IP",
    "CDN-Loop",
    "X-Envoy-External-Address", "X-Original-Host", "Fastly-Client-IP", "X-Azure-ClientIP", "CF-Ray",
    "CF-Connecting-IP", "WL-Proxy-Client-IP", "Tailscale-User-Login", "Tailscale-User-Name",
)  # fmt: skip
METHODS = ("HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "QUERY", "get", "G ET", "GET\t")


@takes_root
@pytest.mark.spec("Z-07")
async def test_no_spelling_of_a_target_reveals_data_to_another_user(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        requests = [at.build_request("GET", each, {"Connection": "close"}) for each in TARGETS]
        heard = [(await request_as(OTHER_UID, "127.0.0.1", at.port, [each]))[0].status for each in requests]
    assert {*heard} <= {400, 401, 404, 405}, list(zip(TARGETS, heard, strict=True))


@pytest.mark.spec("Z-07")
@pytest.mark.parametrize("value", ["203.0.113.7", "127.0.0.1", ""])
async def test_a_request_with_a_proxy_header_requires_the_token(tmp_path: Path, value: str) -> None:
    async with open_target(tmp_path) as at:
        alone = await at.request("GET", "/v1/tasks")
        heard = {name: (await at.request("GET", "/v1/tasks", {name: value})).status for name in OF_PROXIES}
        proven = [
            (await at.request("GET", "/v1/tasks", {name: value, **at.bearer})).status for name in OF_PROXIES
        ]
    assert alone.status == 200
    assert heard == dict.fromkeys(OF_PROXIES, 401)
    assert {*proven} == {200}


async def _statuses(at: Target, method: str, paths: tuple[str, ...]) -> list[int]:
    return [(await at.request(method, each)).status for each in paths]


@pytest.mark.spec("Z-06")
async def test_no_method_lists_or_withdraws_approvals_without_the_token(tmp_path: Path) -> None:
    paths = ("/v1/approvals", "/v1/approvals?directory=/", "/v1/approvals/x", "/v1/approvals/")
    async with open_target(tmp_path) as at:
        heard = {method: await _statuses(at, method, paths) for method in ("GET", *METHODS)}
        pages = [
            (
                await at.request(method, "/v1/approvals/x", {**at.bearer, "Origin": "http://evil.example"})
            ).status
            for method in ("DELETE", "POST")
        ]
    assert {status for each in heard.values() for status in each} <= {400, 401, 404, 405}, heard
    assert pages == [403, 405]


QUERIES = (
    "limit=0", "limit=-1", "limit=1e9", "limit=1001", "limit=x", "limit=1&limit=2", "directory=%00",
    "directory=/a&directory=/b", "directory=" + "a" * 5000, "directory=/" + "a/" * 600, "directory=/%0a",
    "limit=9" + "9" * 400,
)  # fmt: skip
IDS = (
    "x",
    "%2e%2e",
    "a%2fb",
    "a" * 5000,
    "%00",
    "'%20OR%201=1%20--",
    "%F0%9F%92%A9",
    "*",
    "%25",
    "%ff",
    "%0a",
)


@pytest.mark.spec("Z-06")
async def test_invalid_requests_withdraw_no_approval(tmp_path: Path) -> None:
    async with serve_approvals(tmp_path) as (at, caller, _):
        before = await at.runtime.approvals.list(None)
        for query in QUERIES:
            asked = await caller.request("GET", f"/v1/approvals?{query}", headers=caller.authorization)
            assert asked.status == 400, query
            await caller.request("DELETE", f"/v1/approvals?{query}", headers=caller.authorization)
        for permission in ("*", "%25", "b_sh", "BASH", "bash%20", "bash%00"):
            where = f"directory={tmp_path}/project&permission={permission}"
            await caller.request("DELETE", f"/v1/approvals?{where}", headers=caller.authorization)
        for each in IDS:
            told = await caller.request("DELETE", f"/v1/approvals/{each}", headers=caller.authorization)
            assert told.status in {400, 404}, each
        for where in ("", "?permission=bash", "?directory=", f"?directory={tmp_path}", "?directory=/"):
            await caller.request("DELETE", f"/v1/approvals{where}", headers=caller.authorization)
        assert await at.runtime.approvals.list(None) == before
    assert len(before) == 2


@pytest.mark.spec("Z-07")
async def test_the_user_of_an_ipv4_mapped_ipv6_client_is_found(tmp_path: Path) -> None:
    """Its socket is of another family than the server's: the kernel lists it elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(UserLookup()) as users:
        try:
            client = socket.create_connection(("::ffff:127.0.0.1", listener.getsockname()[1]))
        except OSError:
            pytest.skip("there is no IPv6 here")
        with client, listener.accept()[0] as server:
            ends = SocketEnds(server.getpeername(), server.getsockname())
            assert SocketOwners().find(ends) == users.own_uid
            assert await users.match_user(ends) == "same"
            assert await users.match_user(ends.reverse()) == "same"
            client.close()
            assert await users.match_user(ends) == "unknown"
