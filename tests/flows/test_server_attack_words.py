"""Hostile words: JSON, paths, queries, methods and heads that mean something else to somebody else."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from asyncagents.server.route import Route
from asyncagents.server.routes import ROUTES
from tests.support.http.raw import Target, open_target

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """One for all: none of these attacks leaves a trace."""
    async with open_target(tmp_path_factory.mktemp("attacked")) as found:
        yield found


JSON = {"Content-Type": "application/json"}
BODIES = [route for route in ROUTES if route.body is not None]
HOSTILE = {
    "half a character": rb'{"x": "\ud800"}',
    "half a character as a key": rb'{"\udfff": 1}',
    "a zero": rb'{"x": "a\u0000b"}',
    "a raw zero": b'{"x": "a\0b"}',
    "NaN": b'{"x": NaN}',
    "Infinity": b'{"x": -Infinity}',
    "a huge float": b'{"x": 1e999}',
    "a huge int": b'{"x": ' + b"9" * 100 + b"}",
    "an int of 100,000 digits": b'{"x": ' + b"9" * 100_000 + b"}",
    "2**63": b'{"x": 9223372036854775808}',
    "deep lists": b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep objects": b'{"x": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "too deep to end": b"[" * 100_000,
    "a key twice": b'{"pendingID": "a", "pendingID": "b"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "not UTF-8": b'{"x": "\xff"}',
    "overlong": b'{"x": "\xc0\x80"}',
    "half a character in UTF-8": b'{"x": "\xed\xa0\x80"}',
    "UTF-16": '{"x": 1}'.encode("utf-16"),
    "two values": b"{} {}",
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "a number": b"1",
    "a comment": b"{/* */}",
    "single quotes": b"{'x': 1}",
    "a comma too many": b'{"x": 1,}',
    "cut off": b'{"x": "',
    "spaces": b"   ",
}


def _path(route: Route, segment: str = "x") -> str:
    return "/".join(segment if part.startswith("{") else part for part in route.path.split("/"))


async def test_hostile_json_is_refused_by_every_route_that_takes_a_body(at: Target) -> None:
    """With 400, and a sentence; a sender without a signature hears of nothing but that."""
    odd = {}
    for route in BODIES:
        for name, body in HOSTILE.items():
            heard = await at.request(route.method, _path(route), {**at.bearer, **JSON}, body)
            wanted = 401 if route.access == "signature" else 400
            if heard.status != wanted or b"message" not in heard.body or b"Traceback" in heard.body:
                odd[route.path, name] = heard

    assert len(BODIES) >= 3
    assert not odd


SEGMENTS = (
    "%2e%2e",
    "..",
    ".",
    "%2f",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%0a",
    "%0d%0aX-Evil:%201",
    "%ff",
    "%c0%ae%c0%ae",
    "%ed%a0%80",
    "%",
    "%zz",
    "%u0041",
    ";",
    "a;b=c",
    "\\",
    "..\\..",
    "%5c",
    "*",
    "%25",
    "%2500",
    "'%20OR%201=1--",
    "%E2%80%AE",
    "~root",
    "a" * 5000,
    "%41" * 5000,
    "-1",
    "0",
    "null",
    "{id}",
    "%7Bid%7D",
)


async def test_a_hostile_path_segment_is_refused_or_not_found_on_every_route(at: Target) -> None:
    """On every route with a name in its path. Nothing is what is ended, and that is true of nobody."""
    odd = {}
    for route in (each for each in ROUTES if "{" in each.path):
        for segment in SEGMENTS:
            body = b"{}" if route.changes else None
            heard = await at.request(route.method, _path(route, segment), {**at.bearer, **JSON}, body)
            ends = route.path == "/session/{id}/abort" and heard.body == b"true"
            if (heard.status not in {400, 404} and not ends) or "x-evil" in heard.headers:
                odd[route.path, segment] = heard

    assert not odd


@pytest.mark.parametrize(
    "path",
    [
        "/v1//health",
        "//v1/health",
        "/v1/health/",
        "/v1/./health",
        "/v1/x/../health",
        "/v1/%2e/health",
        "/v1/%2e%2e/v1/health",
        "/v1%2fhealth",
        "/%76%31/health",
        "/V1/HEALTH",
        "/v1/health;x=y",
        "/v1/health%00",
        "/v1/health%20",
        "/v1\\health",
        "/",
        "/*",
        "/.git/config",
        "/server.json",
        "/../token",
        "/%2e%2e/token",
        "/async-tool/result/",
        "/async-tool/webhook%2f..%2fresult",
        "/async-tool/webhook/../result",
    ],
)
async def test_a_path_is_not_normalized_to_a_route(at: Target, path: str) -> None:
    """What one reader would make of another path is a path of its own: here there is nothing."""
    read = await at.request("GET", path, at.bearer)
    sent = await at.request("POST", path, {**at.bearer, **JSON}, b"{}")

    assert read.status == 404
    assert sent.status == 404


@pytest.mark.parametrize(
    "query",
    ["a=%ff", "a=%ed%a0%80", "search=%00", "%00=1", "&".join(f"a{n}=1" for n in range(200)), "\xff=1"],
)
async def test_a_malformed_query_is_refused(at: Target, query: str) -> None:
    for path in ("/v1/health", "/v1/tasks", "/async-tool/pending"):
        heard = await at.request("GET", f"{path}?{query}", at.bearer)
        assert heard.status == 400, (path, heard)


async def test_no_hostile_query_value_breaks_a_route_or_forges_a_header(at: Target) -> None:
    """For everything that may stand in the query of any route."""
    odd = {}
    for route in (each for each in ROUTES if each.query and not each.changes):
        for name in (param.name for param in route.query):
            for value in (
                "%00",
                "a%00b",
                "%0d%0aX-Evil:%201",
                "9" * 5000,
                "-1",
                "NaN",
                "%F0%9F%92%A9",
                "'",
            ):
                heard = await at.request(route.method, f"{_path(route)}?{name}={value}", at.bearer)
                if heard.status not in {200, 400, 404} or "x-evil" in heard.headers:
                    odd[route.path, name, value] = heard
                if "%00" in value and heard.status == 200:
                    odd[route.path, name, value] = heard

    assert not odd


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("TRACE", 405),
        ("PUT", 405),
        ("PATCH", 405),
        ("DELETE", 405),
        ("POST", 405),
        ("PROPFIND", 405),
        ("PURGE", 405),
        ("HEAD", 200),
        ("OPTIONS", 204),
        ("get", 400),
        ("Get", 400),
        ("EVIL", 400),
        ("GET/", 400),
        ("G\tET", 400),
        ("\x16\x03\x01", 400),
    ],
)
async def test_an_unsupported_method_is_refused(at: Target, method: str, status: int) -> None:
    headers = {**at.bearer, "X-HTTP-Method-Override": "POST", "Max-Forwards": "0"}
    heard = await at.request(method, "/v1/health", headers)

    assert heard.status == status
    assert at.token.encode() not in heard.body
    if status == 405:
        assert heard.headers["allow"] == "GET"


async def test_head_has_the_status_of_get_and_no_body(at: Target) -> None:
    async with await at.connect() as wire:
        for path in ("/v1/health", "/v1/tasks", "/doc"):
            await wire.send(at.build_request("HEAD", path, at.bearer))
            head = await wire.read_response(head=True)
            await wire.send(at.build_request("GET", path, at.bearer))
            assert head.status == (await wire.read_response()).status == 200
        await wire.send(at.build_request("HEAD", "/v1/events", at.bearer))
        assert (await wire.read_response(head=True)).status == 200
        await wire.send(at.build_request("GET", "/v1/health"))
        assert (await wire.read_response()).status == 200


CONNECT = b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
H2C = (
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "status"), [(CONNECT, 400), (UPGRADE, 200), (H2C, 200), (PREFACE, 400)], ids=str
)
async def test_upgrades_and_other_protocols_are_ignored_or_refused(
    at: Target, raw: bytes, status: int
) -> None:
    """What wants to be something else is answered as it is, and was the last on its connection."""
    async with await at.connect() as wire:
        await wire.send(raw + b"\x00\xff garbage \r\n\r\n" * 10)
        heard = await wire.read_response()
        await wire.send(at.build_request("GET", "/v1/health"))
        rest = await wire.read_until_closed()

    assert heard.status == status
    assert rest == b""


SMUGGLED = b"GET /async-tool/pending HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /async-tool/result HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4\r\nContent-Length: 4\r\n",
        b"Content-Length: 4, 4\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: -4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length: 4 4\r\n",
        b"Content-Length: \r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length : 4\r\n",
        b" Content-Length: 4\r\n",
        b"Content-Length:\r\n 4\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"X: a\nTransfer-Encoding: chunked\r\n",
        b"X: a\rTransfer-Encoding: chunked\r\n",
        b"X: a\0b\r\n",
        b"X\0: b\r\n",
        b": b\r\n",
        b"X\r\n",
        b"X Y: b\r\n",
    ],
    ids=str,
)
async def test_an_ambiguous_request_head_is_refused_and_the_rest_is_not_read(at: Target, head: bytes) -> None:
    async with await at.connect() as wire:
        bearer = f"Authorization: Bearer {at.token}\r\n".encode()
        await wire.send(HEAD + bearer + head + b"\r\n0\r\n\r\n" + SMUGGLED)
        heard = await wire.read_response()
        rest = await wire.read_until_closed()

    assert heard.status == 400
    assert heard.headers["connection"] == "close"
    assert heard.error_name == "BadRequest"
    assert rest == b""


@pytest.mark.parametrize(
    "body",
    [
        b"5;\r\n{}   \r\n0\r\n\r\n",
        b"0x2\r\n{}\r\n0\r\n\r\n",
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"2\n{}\n0\n\n",
        b"2\r\n{}0\r\n\r\n",
        b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        b" 2\r\n{}\r\n0\r\n\r\n",
    ],
    ids=str,
)
async def test_ambiguous_chunks_are_refused(at: Target, body: bytes) -> None:
    async with await at.connect() as wire:
        bearer = f"Authorization: Bearer {at.token}\r\n".encode()
        await wire.send(HEAD + bearer + b"Transfer-Encoding: chunked\r\n\r\n" + body + SMUGGLED)
        heard = await wire.read_response()
        rest = await wire.read_until_closed()

    assert heard.status in {400, 0}  # a mistake in the midst of a body has no answer of its own
    assert rest == b""


async def test_corrupted_requests_get_an_error_message_and_cause_no_crash(at: Target) -> None:
    odd = []
    for noise in _noise(at):
        async with await at.connect() as wire:
            await wire.send(noise + b"\r\n\r\n")
            heard = await wire.read_response()
            if heard.status >= 500 or (heard.status and b"message" not in heard.body):
                odd.append((noise, heard))

    assert not odd


def _noise(at: Target) -> list[bytes]:
    good = at.build_request("POST", "/async-tool/result", {**at.bearer, **JSON}, b'{"pendingID": "x"}')
    flipped = [good[:n] + bytes([good[n] ^ 0x80]) + good[n + 1 :] for n in range(0, len(good), 7)]
    cut = [good[:n] + good[n + 1 :] for n in range(0, len(good), 11)]
    return [b"\xff" * 100, b"\0" * 100, b"\x16\x03\x01\x02\x00\x01\x00", b"GET", b"GET / ", *flipped, *cut]


HEAVY = {
    "numbers": b'{"x": [' + b"1," * 3_000_000 + b"1]}",
    "lists": b'{"x": [' + b"[]," * 2_000_000 + b"1]}",
    "texts": b'{"x": [' + b'"",' * 2_000_000 + b"1]}",
    "keys": b'{"x": {' + b",".join(b'"%d":1' % number for number in range(500_000)) + b"}}",
    "spaces": b'{"x": 1' + b" " * 6_000_000 + b"}",
    "a text without an end": b'{"x": [' + b"1," * 600_000 + b'"' + b'\\"' * 2_000_000,
}


@pytest.mark.parametrize("name", HEAVY)
async def test_json_that_would_take_seconds_to_parse_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing else is done meanwhile."""
    async with open_target(tmp_path) as at:
        heard = await at.request("POST", "/session/x/message", {**at.bearer, **JSON}, HEAVY[name])

    assert heard.status == 400
    assert b"outside of its strings" in heard.body


async def test_a_large_json_string_is_accepted_with_any_content(tmp_path: Path) -> None:
    text = rb"[1,2],\"\u0041\\" * 500_000
    async with open_target(tmp_path) as at:
        session = await at.runtime.create_session(directory=tmp_path)
        body = b'{"noReply": true, "parts": [{"type": "text", "text": "' + text + b'"}]}'
        heard = await at.request("POST", f"/session/{session.id}/message", {**at.bearer, **JSON}, body)

    assert heard.status == 200


async def test_a_cursor_with_line_breaks_is_refused(tmp_path: Path) -> None:
    """A stream begins with the cursor that was given."""
    async with open_target(tmp_path) as at:
        session = await at.runtime.create_session(directory=tmp_path)
        epoch, _, rev = (await at.runtime.cursor()).split("-")
        cursor = quote(f"{epoch}-0\nevent: session.deleted\ndata: {{}}\n\n-{rev}")
        heard = await at.request("GET", f"/v1/sessions/{session.id}/events?after={cursor}", at.bearer)

    assert heard.status == 400
