"""The one door to the web: public addresses only, checked and then kept, redirects one by one, bounded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import aiohttp
from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.address import is_public
from asyncagents.tools.pinned import Allowed, Lookup, NotPublic, Pinned, look_up

MOST_BYTES = 5 * 1024 * 1024
REDIRECTS = 5
AGENT = "asyncagents (+webfetch)"


class Page(Struct, frozen=True):
    url: str
    kind: str
    text: str
    cut: bool


class Web:
    def __init__(self, session: aiohttp.ClientSession, allowed: Allowed) -> None:
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
            except NotPublic as error:
                raise _not_public(error.host) from error
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
            raise _not_public(host)


def _not_public(host: str) -> ToolError:
    return ToolError(f"{host} is not a public address; only pages of the public web can be fetched.")


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
async def open_web(*, look_up: Lookup = look_up, allowed: Allowed = is_public) -> AsyncIterator[Web]:
    resolver = Pinned(look_up, lambda host, address: allowed(address))
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=32)
    timeout = aiohttp.ClientTimeout(total=120, sock_connect=10)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": AGENT, "accept": "text/html,text/markdown,text/plain,*/*;q=0.5"},
        trust_env=False,
    ) as session:
        yield Web(session, allowed)
