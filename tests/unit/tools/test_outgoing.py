"""The post: which addresses are posted to, and what becomes of servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.engine.webhook.delivery import (
    DeliveryForbidden,
    DeliveryResponse,
    SignedRequest,
    Unreachable,
    WebhookResponse,
)
from asyncagents.tools.web.webhook_sender import HostPolicy, canonical_host, open_webhook_sender
from tests.support.wait import PATIENCE

pytestmark = pytest.mark.slow

PUBLIC = "93.184.216.34"


def letter(url: str, body: bytes = b"{}") -> SignedRequest:
    return SignedRequest(url, {"content-type": "application/json", "webhook-id": "dlv_1"}, body)


def leads(**hosts: list[str]) -> Callable[[str, int], Awaitable[list[str]]]:
    """What names are looked up as; a name that is not there is looked up in vain."""

    async def look_up(host: str, port: int) -> list[str]:
        found = hosts.get(host.replace(".", "_").replace("-", "_"))
        if found is None:
            raise OSError(f"no address for {host}")
        return found

    return look_up


async def posted(url: str, **names: list[str]) -> DeliveryResponse:
    async with open_webhook_sender(look_up=leads(**names)) as post, asyncio.timeout(PATIENCE):
        return await post(letter(url))


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://0.0.0.0/",
        "http://0/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0X7F.1/",
        "http://127.0.0.0x1/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1:8080/x",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::a00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[2606:4700::1111%25lo]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://[fd00:ec2::254]/",
        "http://[/",
        "http://[127.0.0.1]/",
    ],
)
async def test_no_spelling_of_an_address_that_is_not_public_is_posted_to(url: str) -> None:
    async def nobody(host: str, port: int) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    async with open_webhook_sender(look_up=nobody) as post:
        assert isinstance(await post(letter(url)), DeliveryForbidden)


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "x.test/hook",
        "//x.test/hook",
        "ftp://x.test/",
        "file:///etc/passwd",
        "gopher://x.test/",
        "javascript:alert(1)",
        "http://",
        "http:///hook",
        "http://x.test:port/",
        "http://x.test:99999/",
        "http://user@x.test/",
        "http://user:pw@x.test/",
        "http://@x.test/",
        "http://x.test@127.0.0.1/",
        "http://x.test\\@127.0.0.1/",
        "http://127.0.0.1\\.x.test/",
        "http://x.test /",
        " http://x.test/",
        "http://x.test/\r\nx-evil: 1",
        "http://x.test/\nHost: y",
        "http://x.test/\x00",
        "http://x.test%2f@127.0.0.1/",
        "http://x.test/<a>",
        "http://x.test%00.y.test/",
        "http://exämple.test/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://.x.test/",
        "http://-x.test/",
        "http://x.test/" + "a" * 3_000,
    ],
)
async def test_an_invalid_or_ambiguous_url_is_not_posted_to(url: str) -> None:
    assert isinstance(await posted(url, x_test=[PUBLIC]), DeliveryForbidden)


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["::1"],
        [PUBLIC, "10.0.0.1"],
        ["10.0.0.1", PUBLIC],
        ["2606:4700::1111", "::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["fe80::1%eth0"],
        ["0.0.0.0"],
        [],
    ],
)
async def test_a_name_that_leads_to_one_private_address_is_not_posted_to(found: list[str]) -> None:
    answer = await posted("https://hook.test/x", hook_test=found)
    assert isinstance(answer, DeliveryForbidden)
    assert "hook.test" in answer.why


@pytest.mark.parametrize("name", ["localhost", "localhost.", "LOCALHOST", "a.localhost", "ip6-localhost"])
async def test_names_of_this_machine_are_not_posted_to(name: str) -> None:
    here = {canonical_host(name).replace(".", "_").replace("-", "_"): ["127.0.0.1"]}
    here |= {"localhost_": ["127.0.0.1"], "LOCALHOST": ["127.0.0.1"]}
    assert isinstance(await posted(f"http://{name}:1/", **here), DeliveryForbidden)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("hooks.corp", True),
        ("HOOKS.corp", True),
        ("hooks.corp.", True),
        ("10.1.2.3", True),
        ("fd00::5", True),
        ("fd00:0:0:0:0:0:0:5", True),
        ("evilhooks.corp", False),
        ("hooks.corp.evil.test", False),
        ("x.hooks.corp", False),
        ("corp", False),
        ("10.1.2.30", False),
        ("10.1.2.3.evil.test", False),
        ("fd00::50", False),
    ],
)
def test_a_host_is_allowed_by_its_whole_name_only(host: str, allowed: bool) -> None:
    policy = HostPolicy(("Hooks.Corp", "10.1.2.3", "[fd00::5]"), lambda address: False)
    assert policy.allows(host, "10.9.9.9") is allowed


@pytest.mark.parametrize("url", [f"http://{PUBLIC}/x?a=b%20c", "https://x.test:8443/a(b)", "http://x_y.test"])
def test_an_ordinary_public_url_is_not_refused(url: str) -> None:
    assert HostPolicy((), lambda address: True).refusal(url) is None


@given(st.text(max_size=60) | st.text(alphabet="htp:/.@[]%\\0x127a#? \r\n", max_size=40))
async def test_any_text_as_a_url_is_refused_or_unreachable(text: str) -> None:
    answer = await posted(text)
    assert isinstance(answer, DeliveryForbidden | Unreachable)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def receiver(handler: Handler) -> AsyncIterator[int]:
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw(answer: bytes, *, forever: bytes = b"") -> AsyncIterator[int]:
    """A server that says these bytes whatever it is asked, and then goes on for ever, or hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            while forever:
                writer.write(forever)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def to(
    port: int, path: str = "/hook", body: bytes = b"{}", name: str = "hook.test"
) -> DeliveryResponse:
    async with open_webhook_sender((name,), look_up=leads(hook_test=["127.0.0.1"])) as post:
        async with asyncio.timeout(PATIENCE):
            return await post(letter(f"http://{name}:{port}{path}", body))


@pytest.mark.spec("P-12")
async def test_a_post_arrives_as_it_was_written() -> None:
    seen: list[tuple[str, str, bytes, dict[str, str]]] = []

    async def hook(request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append((request.method, request.path_qs, await request.read(), headers))
        return web.Response(status=204)

    large = b'"' + b"x" * 3_000_000 + b'"'
    async with receiver(hook) as port:
        assert await to(port, "/a/b?token=1%2F2", large) == WebhookResponse(204)
    ((method, path, body, headers),) = seen
    assert method == "POST"
    assert path == "/a/b?token=1%2F2"
    assert body == large
    assert headers["webhook-id"] == "dlv_1"
    assert headers["content-type"] == "application/json"
    assert headers["host"] == f"hook.test:{port}"
    assert "cookie" not in headers


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_post_follows_no_redirect(status: int) -> None:
    asked: list[str] = []

    async def hook(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers={"location": "/elsewhere", "set-cookie": "a=b"})

    async with receiver(hook) as port:
        assert await to(port) == WebhookResponse(status)
    assert asked == ["/hook"]


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hook(request: web.Request) -> web.Response:
        return web.Response()

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with receiver(hook) as port:
        assert await to(port) == WebhookResponse(200)


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ("retry-after: 120", 120.0),
        ("retry-after: x", None),
        ("retry-after: -3", 0.0),
        ("retry-after: inf", None),
        (
            "date: Mon, 16 Nov 2026 12:00:00 GMT\r\nretry-after: Mon, 16 Nov 2026 12:10:00 GMT",
            600.0,
        ),
    ],
)
async def test_the_wait_before_the_next_try_is_read_from_retry_after(
    headers: str, asked: float | None
) -> None:
    text = f"HTTP/1.1 503 Busy\r\n{headers}\r\ncontent-length: 0\r\n\r\n"
    async with raw(text.encode()) as port:
        assert await to(port) == WebhookResponse(503, asked)


@pytest.mark.parametrize(
    ("start", "forever"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\nxxxx\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", b""),
    ],
)
async def test_an_endless_or_broken_body_of_an_answer_is_ignored(start: bytes, forever: bytes) -> None:
    async with raw(start, forever=forever) as port:
        assert await to(port) == WebhookResponse(200)


@pytest.mark.parametrize(
    ("start", "forever"),
    [
        (b"", b""),
        (b"SSH-2.0-OpenSSH\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n", b"x-more: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nx: ", b"x" * 65_536),
        (b"HTTP/1.1 abc\r\n\r\n", b""),
    ],
)
async def test_a_malformed_or_endless_http_header_is_a_failure(start: bytes, forever: bytes) -> None:
    async with raw(start, forever=forever) as port:
        assert isinstance(await to(port), Unreachable)


async def test_a_refused_connection_and_a_name_without_address_are_failures_that_name_no_token() -> None:
    async def hook(request: web.Request) -> web.Response:
        return web.Response()

    async with receiver(hook) as port:
        pass
    for answer in (await to(port, "/?token=1"), await posted("http://gone.test/?token=1")):
        assert isinstance(answer, Unreachable)
        assert "token" not in answer.why


@pytest.mark.spec("P-12")
async def test_a_name_that_leads_elsewhere_at_the_next_try_is_checked_again() -> None:
    answers = [["127.0.0.1"], [PUBLIC, "169.254.169.254"]]

    async def rebound(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async def hook(request: web.Request) -> web.Response:
        return web.Response()

    def public(address: str) -> bool:
        return not address.startswith("169.")

    async with receiver(hook) as port, open_webhook_sender(look_up=rebound, is_public=public) as post:
        assert await post(letter(f"http://hook.test:{port}/")) == WebhookResponse(200)
        assert isinstance(await post(letter(f"http://hook.test:{port}/")), DeliveryForbidden)


async def test_a_name_is_looked_up_once_for_a_post() -> None:
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async def hook(request: web.Request) -> web.Response:
        return web.Response(status=500)

    async with receiver(hook) as port, open_webhook_sender(look_up=look_up, is_public=lambda a: True) as post:
        assert await post(letter(f"http://hook.test:{port}/")) == WebhookResponse(500)
    assert asked == ["hook.test"]
