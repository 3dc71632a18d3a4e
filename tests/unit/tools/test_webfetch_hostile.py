"""Servers that answer oddly, lead astray or are slow to decode: webfetch says so, and nothing else waits."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.webfetch import MOST_CHARACTERS
from asyncagents.tools.web.body import MOST_BYTES, decode_body
from asyncagents.tools.web.url import parse_address
from tests.support.workspace.web_site import (
    CANARY,
    PUBLIC,
    Fetcher,
    LocalService,
    open_door,
    serve,
    serve_redirects,
)


@asynccontextmanager
async def answering(answers: list[bytes]) -> AsyncIterator[str]:
    """A site whose page `/3` answers the bytes number 3, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode().lstrip("/")
            writer.write(answers[int(path)])
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, PUBLIC, 0)
    async with server:
        yield f"http://site.test:{server.sockets[0].getsockname()[1]}"


PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
PACKED = PLAIN + b"content-encoding: gzip\r\n\r\n"
ODD = [
    b"",
    b"\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/0.9 200 OK\r\n\r\nx",
    b"HTTP/1.1 999 ?\r\ncontent-type: text/plain\r\n\r\nx",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nx",
    b"HTTP/1.1 204 No Content\r\ncontent-type: text/plain\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
    b"HTTP/1.1 300 Multiple Choices\r\ncontent-type: text/plain\r\n\r\nx",
    PLAIN + b"content-length: -1\r\n\r\nx",
    PLAIN + b"content-length: 1, 2\r\n\r\nx",
    PLAIN + b"content-length: 99999999999999999999999\r\n\r\nx",
    PLAIN + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    PLAIN + b"transfer-encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
    PLAIN + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
    PLAIN + b"transfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    PLAIN + b"x: \x00\xff\r\n\r\nx",
    PLAIN + b"content-encoding: gzip, gzip\r\n\r\n" + gzip.compress(gzip.compress(b"x")),
    PLAIN + b"content-encoding: br\r\n\r\nx",
    PLAIN + b"content-encoding: zstd\r\n\r\nx",
    PLAIN + b"content-encoding: deflate\r\n\r\nx",
    PACKED + b"not gzip at all",
    PACKED + gzip.compress(b"x")[:-4],
    PACKED + gzip.compress(b"x") + b"rubbish behind it",
    PACKED + gzip.compress(b"") * 5_000,
    PACKED + gzip.compress(bytes(50 * 1024 * 1024)),
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=\"utf-8\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=rot13\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=../../x\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-16\r\n\r\n\x00\xdc\x00",
    b"HTTP/1.1 200 OK\r\ncontent-type: ;;;=\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-type: \xff\xfe\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nrefresh: 0; url=http://127.0.0.1/\r\n\r\n<p>x",
]  # fmt: skip


@pytest.mark.spec("A-05")
async def test_every_odd_answer_gives_a_page_or_an_error_message(tmp_path: Path) -> None:
    async with answering(ODD) as site, open_door(seconds=10) as door:
        fetch = Fetcher(door, tmp_path, {})
        told = [await said(fetch, f"{site}/{number}") for number in range(len(ODD))]
    assert all(0 < len(each) < MOST_CHARACTERS + 100 for each in told)


async def said(fetch: Fetcher, url: str) -> str:
    try:
        page = await fetch(url)
    except ToolError as error:
        return str(error)
    assert isinstance(page, Completed)
    return f"page: {page.output}"


@pytest.mark.spec("A-03", "A-05")
async def test_no_odd_redirect_leads_to_this_machine(tmp_path: Path) -> None:
    service = LocalService()
    async with serve("127.0.0.1", "::1", handler=service.answer) as port:
        here = f"127.0.0.1:{port}"
        locations = [
            *(f"//{here}/", f"///{here}/", f"\\\\{here}\\", f"/\\{here}/", f"http:/{here}/"),
            *(f"http:{here}/", f"HTTP://{here}/", f"http://site.test@{here}/", f"?http://{here}"),
            *(f"http://{here}#@site.test/", f"http://[::ffff:127.0.0.1]:{port}/", f"//[::1]:{port}/"),
            *(f"//localhost:{port}/", f"//①②⑦.0.0.1:{port}", f"http://{here}/%0d%0aHost:%20site.test"),
            *(
                f" http://{here}/ ",
                f"\t//{here}\t/",
                "file:///etc/passwd",
                "data:text/plain,x",
                "javascript:1",
            ),
            *("ftp://127.0.0.1/", "gopher://127.0.0.1/", "unix:///run/docker.sock", "http://", "//", "://"),
            *("http://[", "http://]", "x" * 7_000, "é"),
        ]
        rules = {"*": "allow", "webfetch": "allow", "webfetch_local": "allow"}
        async with serve_redirects(locations) as site, open_door(seconds=10) as door:
            fetch = Fetcher(door, tmp_path, rules)
            for number in range(len(locations)):
                with pytest.raises(ToolError):
                    await fetch(f"{site}/{number}")
    assert service.requests == []


@pytest.mark.spec("A-03")
@pytest.mark.parametrize(
    "spelling",
    [
        "http://[::ffff:192.0.2.7]/x",
        "http://[::ffff:c000:207]/x",
        "http://[0:0:0:0:0:FFFF:192.0.2.7]:80/x",
        "http://[::ffff:c000:0207]/a/../x#y",
        "http://１９２.0.2.7/x",
        "http://192.0.2.7./%78?",
    ],
)
def test_an_ipv4_address_has_one_spelling_also_inside_of_an_ipv6_one(spelling: str) -> None:
    assert parse_address(spelling).url == "http://192.0.2.7/x"


@pytest.mark.spec("A-03")
async def test_a_denial_of_an_ipv4_address_counts_inside_of_an_ipv6_one(tmp_path: Path) -> None:
    async with open_door() as door:
        rules = {"webfetch": {"*": "allow", f"http://{PUBLIC}*": "deny"}}
        ask = await Fetcher(door, tmp_path, rules)(f"http://[::ffff:{PUBLIC}]:9/")
    assert isinstance(ask, Ask)
    assert ask.patterns == (f"http://{PUBLIC}:9/",)


@pytest.mark.spec("A-05")
@pytest.mark.parametrize(
    "charset", ["cp1253", "tis-620", "iso8859-8", "utf-16", "utf-32", "gb18030", "utf-8"]
)
async def test_other_tasks_run_while_invalid_bytes_are_decoded(charset: str) -> None:
    """Each wrong byte costs a call: five million of them took more than a second."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    size = MOST_BYTES // 10
    wrong = b"\x00\xdc" if charset == "utf-16" else b"\xff\xff"
    text = await decode_body(wrong * (size // 2), charset)
    other.cancel()
    assert turns >= size // (64 * 1024)
    assert "\ufffd" in text
    assert CANARY not in text


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "gb18030", "shift_jis", "iso2022_jp", "utf-8-sig"])
async def test_a_character_that_lies_across_two_pieces_is_read_whole(charset: str) -> None:
    text = "日本" * 40_001 + "x"
    assert await decode_body(text.encode(charset), charset) == text
