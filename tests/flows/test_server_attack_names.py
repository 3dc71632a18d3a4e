"""DNS rebinding: a name that somebody else lets point here, in whatever way it is written."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.http.raw import Target, open_target

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """One for all: none of these attacks leaves a trace."""
    async with open_target(tmp_path_factory.mktemp("attacked")) as found:
        yield found


LET_IN = (
    "127.0.0.1",
    "127.0.0.1:{port}",
    "127.0.0.1:1",
    "127.0.0.1:",
    "127.8.9.10",
    "localhost",
    "LOCALHOST:{port}",
    "LocalHost",
    "localhost.",
    "localhost.:{port}",
    "app.localhost",
    "app.localhost:{port}",
    "[::1]",
    "[::1]:{port}",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]:{port}",
)
SENT_AWAY = (
    "",
    " ",
    ":{port}",
    ".",
    "evil.example",
    "evil.example:{port}",
    "EVIL.EXAMPLE.",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io",
    "notlocalhost",
    "evil-localhost",
    "localhost..",
    "localhost:{port}.evil.example",
    "localhost:{port}@evil.example",
    "user@localhost",
    "user:secret@127.0.0.1",
    "localhost, evil.example",
    "localhost evil.example",
    "localhost/evil",
    "localhost#evil",
    "localhost?evil",
    "localhost\\evil",
    "local\thost",
    "http://localhost",
    "0.0.0.0",
    "0.0.0.0:{port}",
    "[::]",
    "192.168.1.10:{port}",
    "10.0.0.1",
    "169.254.169.254",
    "[fe80::1]",
    "[::ffff:192.168.1.10]",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "0",
    "::1",
    "[::1",
    "::1]",
    "[::1]evil",
    "[::1].evil.example",
    "[127.0.0.1]",
    "[localhost]",
    "127.0.0.1:port",
    "127.0.0.1:-1",
    "127.0.0.1:80:80",
    "127.0.0.1:{port}\xb2",
    "ip6-localhost",
    "localdomain",
    "xn--lcalhost-l6a",
    "l\xf6calhost",
    "\xef\xbd\x8c\xef\xbd\x8f\xef\xbd\x83\xef\xbd\x81\xef\xbd\x8c\xef\xbd\x88\xef\xbd\x8f\xef\xbd\x93\xef\xbd\x94",
    "*",
    "null",
)


async def test_a_host_header_of_this_machine_is_accepted_and_any_other_refused(at: Target) -> None:
    """By whatever route: also where nothing else is asked for."""
    let_in, sent_away = {}, {}
    for name in LET_IN:
        heard = await at.request("GET", "/v1/health", {"Host": name.format(port=at.port)})
        let_in[name] = heard.status
    for name in SENT_AWAY:
        for path in ("/v1/health", "/v1/tasks", "/async-tool/pending", "/nowhere"):
            heard = await at.request("GET", path, {"Host": name.format(port=at.port), **at.bearer})
            sent_away[name, path] = heard.status

    assert set(let_in.values()) == {200}, {name: code for name, code in let_in.items() if code != 200}
    through = {key: code for key, code in sent_away.items() if code != 403}
    assert not through


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /v1/health HTTP/1.1\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.0\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nhOST: localhost\r\n\r\n", 403),
        (b"GET http://evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://localhost/v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET http://localhost@evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET //evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET evil.example/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /v1/health\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.1\r\nX-Forwarded-Host: localhost\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /v1/health HTTP/1.1\r\nX-Host: localhost\r\nHost : localhost\r\n\r\n", 400),
        (b"GET /v1/health HTTP/1.1\r\nHost: evil.example\r\n localhost\r\n\r\n", 400),
    ],
)
async def test_a_missing_or_ambiguous_host_is_refused(at: Target, raw: bytes, status: int) -> None:
    heard = await at.send_raw(raw)

    assert heard.status == status, heard


async def test_a_preflight_with_a_foreign_host_is_refused_despite_an_allowed_origin(
    tmp_path: Path,
) -> None:
    async with open_target(tmp_path, origins=("http://evil.example",)) as at:
        heard = await at.request(
            "OPTIONS", "/async-tool/result", {"Host": "evil.example", "Origin": "http://evil.example"}
        )

    assert heard.status == 403


async def test_an_allowed_host_is_matched_in_any_spelling_and_requires_the_token(
    tmp_path: Path,
) -> None:
    names = ("Agents.Example.org:8443", "[fd00::1]", "fd00::2")
    async with open_target(tmp_path, hosts=names) as at:
        for host in ("agents.example.org", "AGENTS.example.ORG.", "[fd00::1]:80", "[fd00::2]"):
            assert (await at.request("GET", "/v1/health", {"Host": host})).status == 200
            assert (await at.request("GET", "/v1/tasks", {"Host": host})).status == 401
            assert (await at.request("GET", "/v1/tasks", {"Host": host, **at.bearer})).status == 200
        assert (await at.request("GET", "/v1/health", {"Host": "example.org"})).status == 403
        assert (await at.request("GET", "/v1/health", {"Host": "x.agents.example.org"})).status == 403
