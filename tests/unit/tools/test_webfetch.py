"""The webfetch tool: pages a model can read, rules that count for every redirect, and bounds."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask
from asyncagents.errors import ToolError
from asyncagents.tools.web.body import MOST_BYTES, decode_body
from asyncagents.tools.web.markdown import to_markdown
from asyncagents.tools.web.public_address import is_public, reach_of
from asyncagents.tools.web.url import parse_address
from asyncagents.tools.web.web import open_web
from tests.support.workspace.web_site import (
    PUBLIC,
    Fetcher,
    Handler,
    answer_with,
    open_door,
    open_site,
    redirect_to,
)

PAGE = """<html><head><title>T</title><style>x{}</style></head><body><h1>Title</h1><p>Some <b>bold</b>
and a <a href="/next">link</a>.</p><script>alert(1)</script>
<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul>
<ol><li>first</li><li>second</li></ol><pre>a
  b</pre><table><tr><td>x</td><td>y</td></tr></table></body></html>"""


async def fetch(tmp_path: Path, url: str, format: str = "markdown") -> Completed:
    async with open_door() as door, asyncio.timeout(60):
        done = await Fetcher(door, tmp_path, {})(url, format)
    assert isinstance(done, Completed)
    return done


@pytest.mark.spec("A-05")
async def test_a_page_is_read_as_markdown(tmp_path: Path) -> None:
    async with open_site(page=answer_with(PAGE, kind="text/html")) as base:
        done = await fetch(tmp_path, f"{base}/page")
        source = await fetch(tmp_path, f"{base}/page", "html")
    assert done.output.startswith("# Title\n\nSome **bold** and a [link](")
    assert f"({base}/next)" in done.output
    assert "- one\n  - inner" in done.output
    assert "1. first\n2. second" in done.output
    assert "```\na\n  b\n```" in done.output
    assert ("alert" in done.output) is False
    assert ("x{}" in done.output) is False
    assert done.metadata["truncated"] is False
    assert source.output == PAGE


async def test_an_international_host_is_fetched(tmp_path: Path) -> None:
    async with open_site(page=answer_with("plain")) as base:
        done = await fetch(tmp_path, f"{base.replace('site.test', 'BÜCHER.test')}/page")
    assert done.output == "plain"
    assert done.metadata["url"] == f"{base.replace('site.test', 'xn--bcher-kva.test')}/page"


async def test_a_redirect_is_followed_and_too_many_are_not(tmp_path: Path) -> None:
    async with open_site(
        hop=redirect_to("/page"), loop=redirect_to("/loop"), page=answer_with("plain")
    ) as base:
        done = await fetch(tmp_path, f"{base}/hop")
        with pytest.raises(ToolError, match="more than 5 redirects"):
            await fetch(tmp_path, f"{base}/loop")
    assert done.output == "plain"
    assert done.metadata["url"] == f"{base}/page"


@pytest.mark.spec("A-04")
async def test_a_redirect_goes_where_the_rules_allow_and_nowhere_else(tmp_path: Path) -> None:
    heard: list[str] = []

    async def other(request: web.Request) -> web.Response:
        heard.append(request.host)
        return web.Response(text="other")

    async with open_site(other=other) as base:
        there = f"{base.replace('site.test', 'other.test')}/other"
        async with open_site(go=redirect_to(there.replace("http:", "HTTP:"))) as start, open_door() as door:
            deny = {"webfetch": {"*": "allow", "http://other.test:*": "deny"}}
            ask = {"webfetch": {"*": "ask", "http://site.test:*": "allow"}}
            with pytest.raises(ToolError, match=f"redirects to {there}, which the rules do not allow"):
                await Fetcher(door, tmp_path, deny)(f"{start}/go")
            with pytest.raises(ToolError, match=rf"redirects to {there}\. .*call webfetch with this address"):
                await Fetcher(door, tmp_path, ask)(f"{start}/go")
            assert heard == []
            done = await Fetcher(door, tmp_path, {"webfetch": "allow"})(f"{start}/go")
    assert isinstance(done, Completed)
    assert done.output == "other"
    assert len(heard) == 1


@pytest.mark.spec("A-04")
@pytest.mark.parametrize(
    "spelling",
    [
        "HTTP://site.test:{port}/x",
        "http://SITE.test:{port}/x",
        "http://site.test.:{port}/x",
        "http://site.test:0{port}/x",
        "http://site.test:{port}?x",
        "http://site.test:{port}",
        " http://site.test:{port}/x",
        "http://ｓite.test:{port}/x",
        "http://site。test:{port}/x",
        "http://site.test:{port}/%2e%2e/x",
    ],
)
async def test_a_rule_counts_for_each_spelling_of_an_address(tmp_path: Path, spelling: str) -> None:
    rules = {"webfetch": {"*": "allow", "http://site.test:8099/*": "deny"}}
    async with open_door() as door:
        ask = await Fetcher(door, tmp_path, rules)(spelling.format(port=8099))
    assert isinstance(ask, Ask)
    assert ask.permission == "webfetch"
    assert ask.always == ("http://site.test:8099/*",)


@pytest.mark.parametrize("written", ["http://bücher.test/*", "http://xn--bcher-kva.test/*"])
async def test_a_rule_may_name_a_host_in_either_spelling(tmp_path: Path, written: str) -> None:
    async with open_door() as door:
        ask = await Fetcher(door, tmp_path, {"webfetch": {"*": "allow", written: "deny"}})(
            "http://Bücher.test"
        )
    assert isinstance(ask, Ask)
    assert ask.always == ("http://xn--bcher-kva.test/*", "http://bücher.test/*")


async def test_a_page_without_end_is_cut(tmp_path: Path) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/plain"})
        await response.prepare(request)
        for _ in range(MOST_BYTES // 65_536 + 40):
            await response.write(b"x" * 65_536)
        return response

    async with open_site(flood=flood) as base:
        done = await fetch(tmp_path, f"{base}/flood")
    assert done.metadata["truncated"] is True
    assert (len(done.output) < 51_000) is True


@pytest.mark.parametrize(
    ("handler", "says_so"),
    [
        (answer_with("no", status=404), "answered 404"),
        (answer_with("x", kind="image/png"), "not a text"),
    ],
)
async def test_a_page_that_cannot_be_read_is_an_error_with_a_reason(
    tmp_path: Path, handler: Handler, says_so: str
) -> None:
    async with open_site(page=handler) as base:
        with pytest.raises(ToolError, match=says_so):
            await fetch(tmp_path, f"{base}/page")


def packed(content: bytes, encoding: str = "gzip", kind: str = "text/plain") -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=content, headers={"content-encoding": encoding, "content-type": kind})

    return handler


def _bomb(size: int) -> bytes:
    pack = zlib.compressobj(wbits=31)
    piece = b"x" * (1 << 20)
    return b"".join(pack.compress(piece) for _ in range(size >> 20)) + pack.flush()


async def test_a_compressed_page_is_decompressed_up_to_a_limit(tmp_path: Path) -> None:
    bomb = _bomb(64 << 20)
    twice = gzip.compress(bomb)
    pages = {
        "plain": packed(gzip.compress(b"plain")),
        "bomb": packed(bomb),
        "twice": packed(twice, "gzip, gzip"),
        "brotli": packed(b"x", "br"),
        "broken": packed(b"\x1f\x8b" + b"x" * 100),
        "short": packed(gzip.compress(b"plain" * 1000)[:40]),
        "none": packed(b"plain", "identity"),
    }
    async with open_site(**pages) as base:
        done = {name: await fetch(tmp_path, f"{base}/{name}") for name in ("plain", "bomb", "none")}
        for name, reason in (("twice", "not asked for"), ("brotli", "not asked for"), ("broken", "damaged")):
            with pytest.raises(ToolError, match=reason):
                await fetch(tmp_path, f"{base}/{name}")
        short = await fetch(tmp_path, f"{base}/short")
    assert done["plain"].output == "plain"
    assert done["none"].output == "plain"
    assert done["bomb"].metadata["truncated"] is True
    assert (len(done["bomb"].output) < 51_000) is True
    assert len(short.output) < 5_000


@asynccontextmanager
async def raw_site(*pieces: bytes, forever: bytes = b"", hold: bool = False) -> AsyncIterator[str]:
    """A server that says these bytes, then others until the client is gone, or nothing more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
            while forever:
                writer.write(forever * (1 + 4096 // len(forever)))
                await writer.drain()
            await (reader.read() if hold else writer.drain())
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, PUBLIC, 0)
    async with server:
        yield f"http://site.test:{server.sockets[0].getsockname()[1]}/"


OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@pytest.mark.parametrize(
    ("pieces", "forever"),
    [
        ((OK,), b"x-more: y\r\n"),
        ((OK, b"x-long: "), b"y" * 4096),
        ((b"HTTP/1.1 200 ",), b"O" * 4096),
        ((OK, b"transfer-encoding: chunked\r\n\r\n1;"), b"e" * 4096),
        ((OK, b"transfer-encoding: chunked\r\n\r\n0\r\n"), b"x-trailer: y\r\n"),
        ((OK, b"transfer-encoding: chunked\r\n\r\n"), b"0" * 4096),
        ((), b"HTTP/1.1 100 Continue\r\n\r\n"),
        ((), b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
        ((b"SSH-2.0-x\r\n",), b"garbage\r\n"),
    ],
)
async def test_endless_or_malformed_http_headers_are_an_error(
    tmp_path: Path, pieces: tuple[bytes, ...], forever: bytes
) -> None:
    async with raw_site(*pieces, forever=forever) as url:
        with pytest.raises(ToolError, match="could not be fetched"):
            await fetch(tmp_path, url)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 OK\r\n",),
        (OK, b"content-length: 9\r\n\r\nabc"),
        (OK, b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"),
        (OK, b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08"),
    ],
)
async def test_a_page_that_stalls_is_given_up(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    async with raw_site(*pieces, hold=True) as url, open_door(seconds=0.2) as door:
        with pytest.raises(ToolError, match=r"did not answer within 0\.2 s"):
            await Fetcher(door, tmp_path, {})(url)


@pytest.mark.parametrize(
    "charset", ["punycode", "utf-7", "idna", "zlib", "undefined", "unicode_escape", "x\0y"]
)
async def test_a_charset_that_pages_do_not_have_counts_as_utf_8(charset: str) -> None:
    assert await decode_body("a-é+AGE-".encode(), charset) == "a-é+AGE-"


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("shift_jis", "日本"),
        ("ISO-8859-1", "é"),
        ("windows-1251", "Ж"),
        ("GB2312", "中"),
        ("utf-16", "é"),
        ("EUC-KR", "가"),
    ],
)
async def test_charsets_of_the_web_are_read(charset: str, text: str) -> None:
    assert await decode_body(text.encode(charset), charset) == text


async def test_a_host_without_an_ip_address_is_refused(tmp_path: Path) -> None:
    async with open_door() as door:
        with pytest.raises(ToolError, match="it has none"):
            await Fetcher(door, tmp_path, {})("http://void.test/")


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("93.184.216.34", "public"),
        ("2606:4700::1111", "public"),
        ("::ffff:93.184.216.34", "public"),
        ("64:ff9b::5db8:d822", "public"),
        ("127.0.0.1", "local"),
        ("127.200.0.1", "local"),
        ("0.0.0.0", "local"),
        ("10.1.2.3", "local"),
        ("172.16.0.1", "local"),
        ("172.32.0.1", "public"),
        ("192.168.1.1", "local"),
        ("100.64.0.1", "local"),
        ("::", "local"),
        ("::1", "local"),
        ("fd00::1", "local"),
        ("::ffff:127.0.0.1", "local"),
        ("100.100.100.200", "never"),
        ("168.63.129.16", "never"),
        ("192.0.0.192", "never"),
        ("169.254.169.254", "never"),
        ("::ffff:169.254.169.254", "never"),
        ("fd00:ec2::254", "never"),
        ("fe80::1", "never"),
        ("fe80::1%eth0", "never"),
        ("2606:4700::1111%eth0", "never"),
        ("224.0.0.1", "never"),
        ("64:ff9b::7f00:1", "never"),
        ("64:ff9b:1::5db8:d822", "never"),
        ("2002:7f00:1::", "never"),
        ("::127.0.0.1", "never"),
        ("::ffff:0:7f00:1", "never"),
        ("fec0::1", "never"),
        ("4000::1", "never"),
        ("0.0.0.1", "never"),
        ("127.1", "never"),
        ("not an address", "never"),
        ("", "never"),
    ],
)
def test_addresses_are_classified_as_public_local_or_never_reached(address: str, reach: str) -> None:
    assert reach_of(address) == reach
    assert is_public(address) is (reach == "public")


@given(st.text(alphabet="<>/apreulio1h &;\"'=#x", max_size=120))
def test_any_page_can_be_read(html: str) -> None:
    assert isinstance(to_markdown(html, base="http://x.test/").text, str)


@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: f"http://{text}"))
async def test_any_address_is_found_or_refused_with_a_reason(url: str) -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        return []

    async with open_web(look_up=nowhere) as door:
        try:
            target = await door.resolve(parse_address(url))
        except ToolError:
            return
    assert target.is_local or target.address.is_literal
