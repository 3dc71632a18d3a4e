"""Send webhooks to public addresses, or to hosts that the configuration names; redirects are not followed."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from asyncagents.engine.webhook.delivery import (
    DeliveryForbidden,
    DeliveryResponse,
    SignedRequest,
    Unreachable,
    WebhookResponse,
)
from asyncagents.llm.http.errors import retry_after
from asyncagents.tools.web.connection_error import failure_reason
from asyncagents.tools.web.dns_lookup import Lookup, ThreadedLookup
from asyncagents.tools.web.host import find_literal, is_name
from asyncagents.tools.web.public_address import is_public
from asyncagents.tools.web.resolver import AllowAddress, CheckedResolver, NotPublic

TIMEOUT_SECONDS = 15
MOST_URL = 2_048
READ_BUFFER_BYTES = 4_096
"""Only the status and headers of a response are read; at most this much of its body gets into memory."""

_PLAIN_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*", re.ASCII)
"""Characters that all URL parsers read alike: no space, no backslash."""


class HostPolicy:
    """The hosts that webhooks may be sent to."""

    def __init__(self, hosts: tuple[str, ...], is_public: AllowAddress) -> None:
        self._hosts = {canonical_host(host) for host in hosts}
        self._is_public = is_public

    def refusal(self, url: str) -> str | None:
        """Return why nothing may be sent to a URL, judged before DNS lookup; None if it may be tried."""
        if len(url) > MOST_URL or not _PLAIN_URL.fullmatch(url):
            return f"the address is longer than {MOST_URL} characters or has some that must be written as %.."
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return "the address cannot be read"
        if parts.scheme not in ("http", "https") or not host:
            return "the address does not begin with https:// or http:// and a host"
        if "@" in parts.netloc:
            return "the address has a user name or password in it"
        return self._host_refusal(host)

    def _host_refusal(self, host: str) -> str | None:
        """Check an IP address here, since it is never looked up; return why it is refused, or None."""
        literal = find_literal(host)
        if literal is None and not is_name(host):
            return f"{host} is neither a name nor an address as it is usually written"
        if literal is not None and not self.allows(host, literal):
            return f"{host} is not a public address; async_tools.webhooks.hosts can allow it"
        return None

    def allows(self, host: str, address: str) -> bool:
        return canonical_host(host) in self._hosts or self._is_public(address)


def canonical_host(host: str) -> str:
    """Return the canonical spelling of a host."""
    bare = host.lower().removeprefix("[").removesuffix("]")
    return find_literal(bare) or bare.removesuffix(".")


class WebhookSender:
    def __init__(self, session: aiohttp.ClientSession, policy: HostPolicy) -> None:
        self._session = session
        self._policy = policy

    async def __call__(self, request: SignedRequest) -> DeliveryResponse:
        if (refusal := self._policy.refusal(request.url)) is not None:
            return DeliveryForbidden(refusal)
        try:
            async with self._session.post(
                URL(request.url, encoded=True),
                data=BytesIO(request.body),
                headers=request.headers,
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                response.close()
                return WebhookResponse(response.status, retry_after(headers))
        except NotPublic as error:
            return DeliveryForbidden(f"{error}; async_tools.webhooks.hosts can allow it")
        except aiohttp.InvalidURL:
            return DeliveryForbidden("the address cannot be read")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unreachable(failure_reason(error, TIMEOUT_SECONDS))


@asynccontextmanager
async def open_webhook_sender(
    hosts: tuple[str, ...] = (), *, look_up: Lookup | None = None, is_public: AllowAddress = is_public
) -> AsyncIterator[WebhookSender]:
    policy = HostPolicy(hosts, is_public)
    connector = aiohttp.TCPConnector(
        resolver=CheckedResolver(look_up or ThreadedLookup(), policy.allows),
        use_dns_cache=False,
        force_close=True,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
        trust_env=False,
    ) as session:
        yield WebhookSender(session, policy)
