"""The one door to the web: public addresses only, checked and then kept, redirects one by one, bounded."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.address import is_public

MOST_BYTES = 5 * 1024 * 1024
REDIRECTS = 5
AGENT = "asyncagents (+webfetch)"

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host."""


class Page(Struct, frozen=True):
    url: str
    kind: str
    text: str
    cut: bool


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class _Pinned(AbstractResolver):
    """Only public addresses; if one of them is not, none of them counts."""

    def __init__(self, look_up: Lookup, allowed: Callable[[str], bool]) -> None:
        self._look_up = look_up
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._look_up(host, port)
        if not addresses or not all(self._allowed(address) for address in addresses):
            raise ToolError(f"{host} is not a public address; only pages of the public web can be fetched.")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


class Web:
    def __init__(self, session: aiohttp.ClientSession, allowed: Callable[[str], bool]) -> None:
        self._session = session
        self._allowed = allowed

    async def fetch(self, url: str) -> Page:
        """Raises `ToolError` with what the model can do about it."""
        for _ in range(REDIRECTS + 1):
            self._check(url)
            try:
                async with self._session.get(url, allow_redirects=False) as response:
                    if (target := response.headers.get("location")) and 300 <= response.status < 400:
                        url = urljoin(url, target)
                        continue
                    return await _page(url, response)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise ToolError(f"{url} could not be fetched: {_reason(error)}") from error
        raise ToolError(f"{url} redirects more than {REDIRECTS} times.")

    def _check(self, url: str) -> None:
        """An address in the URL itself is never looked up, so it is checked here."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise ToolError(f"{url[:200]!r} is no address: {error}.") from error
        if parts.scheme not in ("http", "https") or not host:
            raise ToolError(f"{url[:200]!r} is no web address; begin it with https://.")
        if parts.username is not None or parts.password is not None:
            raise ToolError("An address with a user name or password is not fetched.")
        literal = host.replace(".", "").isdecimal() or ":" in host or host.lower().startswith("0x")
        if literal and not self._allowed(host):
            raise ToolError(f"{host} is not a public address; only pages of the public web can be fetched.")


def _reason(error: Exception) -> str:
    return str(error.__cause__ or error) or type(error).__name__


async def _page(url: str, response: aiohttp.ClientResponse) -> Page:
    if response.status >= 400:
        raise ToolError(f"{url} answered {response.status} {response.reason or ''}".rstrip() + ".")
    kind = response.content_type
    if not (kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml"))):
        raise ToolError(f"{url} is {kind}, not a text.")
    raw, cut = await _bounded(response)
    try:
        text = raw.decode(response.charset or "utf-8", "replace")
    except LookupError:
        text = raw.decode("utf-8", "replace")
    return Page(str(url), kind, text, cut)


async def _bounded(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) > MOST_BYTES:
            return bytes(raw[:MOST_BYTES]), True
    return bytes(raw), False


@asynccontextmanager
async def open_web(
    *, look_up: Lookup = look_up, allowed: Callable[[str], bool] = is_public
) -> AsyncIterator[Web]:
    connector = aiohttp.TCPConnector(resolver=_Pinned(look_up, allowed), use_dns_cache=False, limit=32)
    timeout = aiohttp.ClientTimeout(total=120, sock_connect=10)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": AGENT, "accept": "text/html,text/markdown,text/plain,*/*;q=0.5"},
        trust_env=False,
    ) as session:
        yield Web(session, allowed)
