"""Pages of other origins: what they may neither do nor read, and what `--cors` opens."""

from pathlib import Path

import pytest

from asyncagents.errors import ConfigError
from asyncagents.server.route import Route
from asyncagents.server.routes import ROUTES
from tests.support.http.client import Response
from tests.support.http.raw import Target, open_target

EVIL = "http://evil.example"
PAGE = "http://localhost:3000"
JSON = {"Content-Type": "application/json"}
FOREIGN = (
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": "https://127.0.0.1:{port}"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "http://localhost:{port}"},
    {"Origin": "http://127.0.0.1:{port}.evil.example"},
    {"Origin": "http://127.0.0.1:{port}@evil.example"},
    {"Origin": "chrome-extension://abcdefghijklmnop"},
    {"Origin": "file://"},
    {"Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    {"Origin": "", "Sec-Fetch-Site": "cross-site"},
)
CHANGING = [route for route in ROUTES if route.changes]
READING = [route for route in ROUTES if not route.changes and route.access != "open"]


def _path(route: Route) -> str:
    return "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))


def _filled(headers: dict[str, str], at: Target) -> dict[str, str]:
    return {name: value.format(port=at.port) for name, value in headers.items()}


async def test_no_page_of_another_origin_changes_anything_even_with_the_token(tmp_path: Path) -> None:
    through = []
    async with open_target(tmp_path) as at:
        for route in CHANGING:
            for page in FOREIGN:
                headers = {**_filled(page, at), **JSON, **at.bearer}
                heard = await at.request(route.method, _path(route), headers, b"{}")
                if heard.status != 403 or "access-control-allow-credentials" in heard.headers:
                    through.append((route.path, page, heard))

    assert CHANGING
    assert not through


async def test_no_page_of_another_origin_reads_anything_without_the_token(tmp_path: Path) -> None:
    through = []
    async with open_target(tmp_path) as at:
        for route in READING:
            for page in FOREIGN:
                heard = await at.request(route.method, _path(route), _filled(page, at))
                if heard.status != 401:
                    through.append((route.path, page, heard))

    assert {route.path for route in READING} >= {"/v1/tasks", "/v1/events"}
    assert not through


async def test_two_origin_headers_are_refused_if_one_is_foreign(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        raw = (
            f"GET /v1/tasks HTTP/1.1\r\nHost: {at.host}\r\nOrigin: http://{at.host}\r\nOrigin: {EVIL}\r\n\r\n"
        )
        heard = await at.send_raw(raw.encode())

    assert heard.status == 401


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
        "text/json",
        "application/json-patch",
        "json",
        "*/*",
    ],
)
async def test_a_body_that_is_not_application_json_is_refused(tmp_path: Path, kind: str) -> None:
    """A browser asks before it sends JSON across origins; before it sends these it does not."""
    body = b'{"pendingID": "call_1", "result": {"output": "forged"}}'
    async with open_target(tmp_path, auth=False) as at:
        kinds = {"Content-Type": kind} if kind else {}
        refused = await at.request("POST", "/async-tool/result", kinds, body)
        taken = await at.request("POST", "/async-tool/result", JSON, body)

    assert refused.status == 415
    assert refused.error_name == "UnsupportedMediaTypeError"
    assert taken.status == 404  # there is no such call


async def test_no_auth_still_refuses_pages_of_other_origins_and_proxies(tmp_path: Path) -> None:
    async with open_target(tmp_path, auth=False) as at:
        assert at.token == ""
        read = await at.request("GET", "/async-tool/pending")
        by_page = await at.request("GET", "/async-tool/pending", {"Origin": EVIL})
        sent = await at.request("POST", "/async-tool/result", {"Origin": EVIL, **JSON}, b"{}")
        handed_on = await at.request("GET", "/async-tool/pending", {"X-Forwarded-For": "203.0.113.9"})
        empty = await at.request("GET", "/async-tool/pending", {"Authorization": "Bearer "})

    assert read.status == 200
    assert by_page.status == 401
    assert sent.status == 403
    assert handed_on.status == 401
    assert empty.status == 200


async def test_cors_headers_of_the_status_api_do_not_replace_the_token(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        preflight = await at.request(
            "OPTIONS", "/v1/tasks", {"Origin": EVIL, "Access-Control-Request-Method": "GET"}
        )
        without = await at.request("GET", "/v1/tasks", {"Origin": EVIL})
        proven = await at.request("GET", "/v1/tasks", {"Origin": EVIL, **at.bearer})
        local = await at.request("GET", "/v1/tasks")

    assert preflight.status == 204
    assert without.status == 401
    assert proven.status == 200
    assert local.status == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "POST" not in preflight.headers["access-control-allow-methods"]
    assert all("access-control-allow-credentials" not in each.headers for each in (preflight, proven, local))


def _allowed(heard: Response) -> dict[str, str]:
    return {name: value for name, value in heard.headers.items() if name.startswith("access-control-")}


async def test_the_cors_option_allows_one_origin_and_no_other(tmp_path: Path) -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with open_target(tmp_path, origins=(PAGE,)) as at:
        let_in = await at.request("OPTIONS", "/async-tool/result", {"Origin": PAGE, **ask})
        kept_out = await at.request("OPTIONS", "/async-tool/result", {"Origin": EVIL, **ask})
        near = await at.request("OPTIONS", "/async-tool/result", {"Origin": f"{PAGE}0", **ask})
        reads = await at.request("GET", "/v1/tasks", {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"})
        without = await at.request("POST", "/async-tool/result", {"Origin": PAGE, **JSON}, b"{}")
        sends = await at.request("POST", "/async-tool/result", {"Origin": PAGE, **JSON, **at.bearer}, b"{}")
        strange = await at.request("POST", "/async-tool/result", {"Origin": EVIL, **JSON, **at.bearer}, b"{}")
        looks = await at.request("GET", "/async-tool/pending", {"Origin": EVIL})
        nowhere = await at.request("OPTIONS", "/no/such/route", {"Origin": EVIL, **ask})

    assert let_in.headers["access-control-allow-origin"] == PAGE
    assert let_in.headers["vary"] == "Origin"
    assert "POST" in let_in.headers["access-control-allow-methods"]
    for each in (kept_out, near):  # as of any path, also one that is not there: it says nothing
        assert each.status == 204
        assert each.body == b""
        assert _allowed(each) == _allowed(nowhere)
        assert _allowed(each)["access-control-allow-methods"] == "GET, OPTIONS"
    assert not _allowed(strange)
    assert not _allowed(looks)
    assert looks.status == 401
    assert reads.status == 200
    assert without.status == 401
    assert sends.status == 400
    assert strange.status == 403


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For",
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "CF-Connecting-IP",
    ],
)
async def test_a_request_forwarded_by_a_local_proxy_requires_the_token(tmp_path: Path, header: str) -> None:
    """Neither does what the header says make one of it."""
    async with open_target(tmp_path) as at:
        for value in ("203.0.113.9", "127.0.0.1", "for=127.0.0.1", ""):
            assert (await at.request("GET", "/v1/tasks", {header: value})).status == 401
            assert (await at.request("GET", "/v1/events", {header: value})).status == 401
            assert (await at.request("GET", "/v1/tasks", {header: value, **at.bearer})).status == 200
            assert (await at.request("GET", "/v1/health", {header: value})).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "",
        "localhost:3000",
        "http://",
        "://x",
        "http://*.example.org",
        "http://x/y",
        "http://a@b",
        "http://x y",
    ],
)
async def test_an_invalid_or_wildcard_allowed_origin_is_a_config_error(tmp_path: Path, origin: str) -> None:
    """Whoever frames a page can make it one of `null`."""
    with pytest.raises(ConfigError, match="is not an origin"):
        async with open_target(tmp_path, origins=(origin,)):
            pass


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("http://localhost:3000/", "http://localhost:3000"),
        ("HTTP://LocalHost:3000", "http://localhost:3000"),
        ("http://app.example:80", "http://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("tauri://localhost", "tauri://localhost"),
    ],
)
async def test_an_allowed_origin_is_normalized(tmp_path: Path, given: str, sent: str) -> None:
    async with open_target(tmp_path, origins=(given,)) as at:
        heard = await at.request("GET", "/v1/tasks", {"Origin": sent})
        near = await at.request("GET", "/v1/tasks", {"Origin": f"{sent}1"})

    assert heard.status == 200
    assert near.status == 401


@pytest.mark.parametrize("host", ["", "http://x", "a/b", "user@host", "*.example.org", "a b", "a:b:c:x"])
async def test_an_invalid_allowed_host_name_is_a_config_error(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name"):
        async with open_target(tmp_path, hosts=(host,)):
            pass
