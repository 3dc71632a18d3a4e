"""Fetch web pages: a host is looked up and checked once, and only the addresses found are connected to."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import AddrInfoType
from msgspec import Struct
from yarl import URL

from asyncagents.errors import ToolError
from asyncagents.tools.web.body import ENCODING, MOST_BYTES, decode_body, read_body
from asyncagents.tools.web.bounded_connection import BoundedConnector
from asyncagents.tools.web.connection_error import failure_reason
from asyncagents.tools.web.dns_lookup import Lookup, ThreadedLookup
from asyncagents.tools.web.public_address import ReachOf, reach_from_here
from asyncagents.tools.web.resolver import CheckedResolver, NotPublic
from asyncagents.tools.web.url import WebAddress, join_address

TIMEOUT_SECONDS = 60
MOST_CONCURRENT = 32
"""Most pages fetched at the same time."""
USER_AGENT = "asyncagents (+webfetch)"
_HEADERS = {
    "user-agent": USER_AGENT,
    "accept": "text/html,text/markdown,text/plain,*/*;q=0.5",
    "accept-encoding": ENCODING,
}
_LOOPBACK = ("127.0.0.1", "::1")


class WebTarget(Struct, frozen=True):
    """A URL, and the IP addresses that its host resolved to."""

    address: WebAddress
    addresses: tuple[str, ...]
    is_local: bool

    @property
    def url(self) -> str:
        return self.address.url


class WebPage(Struct, frozen=True):
    url: str
    content_type: str
    text: str
    cut: bool


class Web:
    def __init__(
        self, look_up: Lookup, reach_of: ReachOf, own_port: Callable[[], int | None], *, seconds: float
    ) -> None:
        self._look_up = look_up
        self._reach_of = reach_of
        self._own_port = own_port
        self._seconds = seconds
        self._slots = asyncio.Semaphore(MOST_CONCURRENT)
        self.parsing = asyncio.Semaphore(os.cpu_count() or 1)
        """Held while a page is parsed, which uses a whole processor."""

    async def resolve(self, address: WebAddress) -> WebTarget:
        """Resolve the host of a URL. Raises `ToolError` if nothing may be fetched from there."""
        found = await self._find_addresses(address)
        reaches = {self._reach_of(each) for each in found}
        if "never" in reaches or not found:
            raise ToolError(
                f"{address.host} is not a public address ({', '.join(found) or 'it has none'}), nor one of "
                "this machine and its network: nothing can be fetched from there."
            )
        is_local = "local" in reaches
        if is_local and address.port == await asyncio.to_thread(self._own_port):
            raise ToolError(f"{address.site} is the server that runs you: nothing is fetched from there.")
        return WebTarget(address, found, is_local)

    async def _find_addresses(self, address: WebAddress) -> tuple[str, ...]:
        if address.is_literal:
            return (address.host,)
        if address.is_loopback_name:
            return _LOOPBACK
        try:
            return tuple(await self._look_up(address.host, address.port))
        except OSError as error:
            raise ToolError(f"{address.url} cannot be fetched: its name cannot be looked up.") from error

    async def get(self, target: WebTarget) -> WebPage | WebAddress:
        """Fetch a page, or return the URL that it redirects to. Raises `ToolError`."""
        try:
            async with self._slots, _open_session(target, self._seconds) as session:
                url = URL(target.url, encoded=True)
                async with session.get(url, allow_redirects=False) as response:
                    if (location := response.headers.get("location")) and 300 <= response.status < 400:
                        return join_address(target.address, location)
                    return await _read_page(target.url, response)
        except NotPublic as error:
            raise ToolError(f"{target.url} is not fetched: {error}.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(
                f"{target.url} could not be fetched: {failure_reason(error, self._seconds)}."
            ) from error


@asynccontextmanager
async def _open_session(
    target: WebTarget, seconds: float = TIMEOUT_SECONDS
) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session that can connect only to the addresses of the target."""

    async def look_up_known(host: str, port: int) -> list[str]:
        return list(target.addresses) if host == target.address.host else []

    def is_known(host: str, address: str) -> bool:
        return address in target.addresses

    def open_socket(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, peer = info
        if str(peer[0]) not in target.addresses or peer[1] != target.address.port or any(peer[2:]):
            raise PermissionError(errno.EACCES, f"{peer[0]} was not looked up for this page")
        return socket.socket(family, kind, protocol)

    connector = BoundedConnector(CheckedResolver(look_up_known, is_known), open_socket, most=2 * MOST_BYTES)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=10),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield session


async def _read_page(url: str, response: aiohttp.ClientResponse) -> WebPage:
    if response.status >= 400:
        raise ToolError(f"{url} answered {response.status} {response.reason or ''}".rstrip() + ".")
    kind = response.content_type
    if not (kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml"))):
        raise ToolError(f"{url} is {kind}, not a text.")
    body = await read_body(response)
    return WebPage(url, kind, await decode_body(body.content, response.charset), body.cut)


@asynccontextmanager
async def open_web(
    *,
    look_up: Lookup | None = None,
    reach_of: ReachOf = reach_from_here,
    own_port: Callable[[], int | None] = lambda: None,
    seconds: float = TIMEOUT_SECONDS,
) -> AsyncIterator[Web]:
    """Open the client. `own_port`: returns the port of our own server, from which no page is fetched.
    `seconds`: the timeout of one page."""
    yield Web(look_up or ThreadedLookup(), reach_of, own_port, seconds=seconds)
