"""The web door: public addresses only, whatever they are called, and pages a model can read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.call import Completed
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.address import is_public
from asyncagents.tools.markdown import to_markdown
from asyncagents.tools.web import MOST_BYTES, open_web
from asyncagents.tools.webfetch import WebFetch, webfetch

CONTEXT = ToolContext(
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    call_id=CallId("tool_1"),
    agent="build",
    directory="/work",
)
PAGE = """<html><head><title>T</title><style>x{}</style></head><body><h1>Title</h1><p>Some <b>bold</b>
and a <a href="/next">link</a>.</p><script>alert(1)</script>
<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul>
<ol><li>first</li><li>second</li></ol><pre>a
  b</pre><table><tr><td>x</td><td>y</td></tr></table></body></html>"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def site(**pages: Handler) -> AsyncIterator[str]:
    """A site of this machine, under a name that only the tests know."""
    app = web.Application()
    for name, handler in pages.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://site.test:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def anywhere(address: str) -> bool:
    return True


def says(text: str, **more: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=text, **more)  # type: ignore[arg-type]

    return handler


async def fetch(url: str, format: str = "markdown") -> Completed:
    async with open_web(look_up=here, allowed=anywhere) as door, asyncio.timeout(20):
        done = await webfetch(door).run(WebFetch(url, format), CONTEXT)  # type: ignore[arg-type]
    assert isinstance(done, Completed)
    return done


@pytest.mark.spec("A-05")
async def test_a_page_is_read_as_markdown() -> None:
    async with site(page=says(PAGE, content_type="text/html")) as base:
        done = await fetch(f"{base}/page")
    assert done.output.startswith("# Title\n\nSome **bold** and a [link](")
    assert f"({base}/next)" in done.output
    assert "- one\n  - inner" in done.output
    assert "1. first\n2. second" in done.output
    assert "```\na\n  b\n```" in done.output
    assert ("alert" in done.output, "x{}" in done.output, done.metadata["truncated"]) == (False, False, False)


async def test_a_redirect_is_followed_and_too_many_are_not() -> None:
    async def hop(request: web.Request) -> web.Response:
        raise web.HTTPFound("/page")

    async def loop(request: web.Request) -> web.Response:
        raise web.HTTPFound("/loop")

    async with site(hop=hop, loop=loop, page=says("plain")) as base:
        assert (await fetch(f"{base}/hop")).output == "plain"
        with pytest.raises(ToolError, match="redirects more than"):
            await fetch(f"{base}/loop")


async def test_a_redirect_to_a_private_address_is_refused() -> None:
    async def out(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data")

    async with site(out=out) as base, open_web(look_up=here, allowed=_not_metadata) as door:
        with pytest.raises(ToolError, match="not a public address"):
            await door.fetch(f"{base}/out")


def _not_metadata(address: str) -> bool:
    return address != "169.254.169.254"


async def test_a_page_without_end_is_cut() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/plain"})
        await response.prepare(request)
        for _ in range(MOST_BYTES // 65_536 + 40):
            await response.write(b"x" * 65_536)
        return response

    async with site(flood=flood) as base:
        done = await fetch(f"{base}/flood")
    assert (done.metadata["truncated"], len(done.output) < 51_000) == (True, True)


@pytest.mark.parametrize(
    ("handler", "says_so"),
    [
        (says("no", status=404), "answered 404"),  # type: ignore[arg-type]
        (says("x", content_type="image/png"), "not a text"),
    ],
)
async def test_what_cannot_be_read_is_said(handler: Handler, says_so: str) -> None:
    async with site(page=handler) as base:
        with pytest.raises(ToolError, match=says_so):
            await fetch(f"{base}/page")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/x",
        "file:///etc/passwd",
        "example.org",
        "http://",
        "http://user:pw@example.org/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fe80::1%eth0]/",
        "http://localhost/",
        "http://rebound.test/",
        "http://[/",
        "http://a:b/",
    ],
)
async def test_what_is_not_the_public_web_is_refused(url: str) -> None:
    async def private(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    async with open_web(look_up=private) as door:
        with pytest.raises(ToolError):
            await door.fetch(url)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1111", True),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
        ("::127.0.0.1", False),
        ("::ffff:0:7f00:1", False),
        ("fec0::1", False),
        ("4000::1", False),
        ("not an address", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@given(st.text(alphabet="<>/apreulio1h &;\"'=#x", max_size=120))
def test_any_page_can_be_read(html: str) -> None:
    assert isinstance(to_markdown(html, base="http://x.test/"), str)


@given(st.text(max_size=60))
async def test_any_address_is_fetched_or_refused_with_a_reason(url: str) -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        return []

    async with open_web(look_up=nowhere) as door:
        with pytest.raises(ToolError):
            await door.fetch(url)
