"""A site that counts as public, a service of this machine that must not be reached, and a door between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from asyncagents.domain.agent.permission import ConfiguredRules, LineageRules, rules_from_config
from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.tools.builtin.webfetch import WebFetchArgs, webfetch
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.web.public_address import Reach, reach_of
from asyncagents.tools.web.web import Web, open_web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PUBLIC = "127.0.0.2"
"""Of this machine as well, but in these tests it counts as an address of the web."""
CANARY = "CANARY-51c3"


async def look_up(host: str, port: int) -> list[str]:
    """Find the site by its names, and this machine by all others."""
    names = {"site.test": [PUBLIC], "other.test": [PUBLIC], "xn--bcher-kva.test": [PUBLIC]}
    return {**names, "metadata.test": ["169.254.169.254"], "void.test": []}.get(host, ["127.0.0.1"])


def reach(address: str) -> Reach:
    return "public" if address == PUBLIC else reach_of(address)


@asynccontextmanager
async def open_door(own_port: int | None = None, seconds: float = 60) -> AsyncIterator[Web]:
    async with open_web(look_up=look_up, reach_of=reach, own_port=lambda: own_port, seconds=seconds) as door:
        yield door


@asynccontextmanager
async def serve(*addresses: str, handler: Handler) -> AsyncIterator[int]:
    """Answer every path at one port of all these addresses."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        port = 0
        for address in addresses:
            await web.TCPSite(runner, address, port).start()
            port = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()


class LocalService:
    """What listens on this machine alone, and remembers who came."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.host}{request.path_qs}")
        return web.Response(text=CANARY)


@asynccontextmanager
async def open_site(**pages: Handler) -> AsyncIterator[str]:
    """A site of the web, under the name site.test."""

    async def answer(request: web.Request) -> web.StreamResponse:
        name = request.path.lstrip("/")
        return await pages[name](request) if name in pages else web.Response(status=404)

    async with serve(PUBLIC, handler=answer) as port:
        yield f"http://site.test:{port}"


def answer_with(text: str, *, kind: str = "text/plain", status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind, status=status)

    return handler


def redirect_to(location: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"location": location})

    return handler


@asynccontextmanager
async def serve_redirects(locations: Sequence[str]) -> AsyncIterator[str]:
    """A site of the web whose page `/3` redirects to the location number 3, written as it stands."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode().lstrip("/")
        head = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        if path.isdecimal() and int(path) < len(locations):
            head = b"HTTP/1.1 302 Found\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n"
            head %= locations[int(path)].encode()
        writer.write(head)
        writer.close()

    server = await asyncio.start_server(answer, PUBLIC, 0)
    async with server:
        yield f"http://site.test:{server.sockets[0].getsockname()[1]}"


def context_with(rules: ConfiguredRules) -> ToolContext:
    return ToolContext(
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        call_id=CallId("tool_1"),
        agent="build",
        directory="/work",
        rules=LineageRules.from_rules(default_rules() + rules_from_config(rules, "")),
    )


def processes(folder: Path) -> Processes:
    return Processes({"PATH": "/usr/bin:/bin"}, folder=folder, namespace=False)


class Fetcher:
    """Plans a call and runs it, if its rules allow that; else tells what it asks for."""

    def __init__(self, door: Web, folder: Path, rules: Mapping[str, object]) -> None:
        self._tool = webfetch(door, processes(folder))
        self.context = context_with(rules)  # type: ignore[arg-type]

    async def plan(self, url: str) -> Ask:
        assert self._tool.plan is not None
        (ask,) = await self._tool.plan(WebFetchArgs(url), self.context)
        return ask

    async def __call__(self, url: str, format: str = "markdown") -> Completed | Ask:
        ask = await self.plan(url)
        assert self.context.rules is not None
        if self.context.rules.decide(ask.permission, ask.patterns) != "allow":
            return ask
        return await self.run(url, format)

    async def run(self, url: str, format: str = "markdown") -> Completed:
        done = await self._tool.run(WebFetchArgs(url, format), self.context)  # type: ignore[arg-type]
        assert isinstance(done, Completed)
        return done
