"""Requests to a server that may go and come back: what got no answer is sent again, under the same key."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TraceConfig,
    TraceRequestHeadersSentParams,
)
from msgspec import Struct

from asyncagents.client.address import Address, Finder
from asyncagents.client.refusal import refusal
from asyncagents.domain.shape import encode
from asyncagents.errors import Unavailable

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Without a byte; no request here waits for a model."""
SILENCE_SECONDS = 60.0
"""Of a stream: a living server says something four times as often."""
MOST_TRIES = 10
"""So often a question may take the server down, or its connection; then only patience counts."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

_PASSING = frozenset({429, 502, 504})
LOST = (ClientError, TimeoutError, ConnectionError)


class Lost(Unavailable):
    """There was no server for longer than one was waited for; else it is there, and cannot do it."""


class Question(Struct, frozen=True, kw_only=True):
    """`key`: what makes it count once. `gone`: what a 404 means that may be our own doing."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    key: str | None = None
    gone: bytes | None = None

    @property
    def headers(self) -> dict[str, str]:
        kind = {"content-type": "application/json"} if self.method == "POST" else {}
        return kind if self.key is None else kind | {"idempotency-key": self.key}

    @property
    def content(self) -> bytes | None:
        return encode(self.body if self.body is not None else {}) if self.method == "POST" else None


class Patience:
    """How long a server may be away, counted from when it was last heard."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = asyncio.get_running_loop().time
        self.heard()

    def heard(self) -> None:
        self._end = self._now() + self._seconds
        self._pause = FIRST_PAUSE

    async def rest(self, error: Exception, wait: float = 0.0) -> None:
        """Before the next try; raises `Lost` if there is no point in one."""
        pause = max(self._pause, wait)
        if self._now() + pause > self._end:
            known = isinstance(error, Unavailable)
            raise Lost(str(error) if known else f"the server does not answer: {_told(error)}") from error
        await asyncio.sleep(pause)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


class Tries:
    """How often a question was sent. aiohttp sends some again by itself, without a word."""

    def __init__(self) -> None:
        self.count = 0


def counting() -> TraceConfig:
    """Has the tries of each question counted, in what is given along with it."""
    config = TraceConfig()
    config.on_request_headers_sent.append(_count)
    return config


async def _count(
    session: ClientSession, context: SimpleNamespace, sent: TraceRequestHeadersSentParams
) -> None:
    if isinstance(context.trace_request_ctx, Tries):
        context.trace_request_ctx.count += 1


class Link:
    """`http` was opened with `counting`."""

    def __init__(self, http: ClientSession, find: Finder, *, patience: float) -> None:
        self._http = http
        self._find = find
        self._patience = patience

    def patience(self) -> Patience:
        return Patience(self._patience)

    async def ask(self, question: Question) -> bytes:
        """Raises what the server refuses it with, and `Lost` if there is none for too long."""
        patience, tries = self.patience(), Tries()
        while True:
            before = tries.count
            try:
                async with self._sent(self._find(), question, _ANSWERED, tries) as response:
                    body = await response.read()
            except (Unavailable, *LOST) as error:
                if before < tries.count <= MOST_TRIES:  # it was there until just now
                    patience.heard()
                await patience.rest(error)
                continue
            if response.status < 400:
                return body
            if response.status == 404 and question.gone is not None and tries.count > 1:
                return question.gone
            refused = refusal(response.status, body)
            if not _comes_back(response):
                raise refused
            await patience.rest(refused, _pause_of(response))

    @asynccontextmanager
    async def listen(self, question: Question) -> AsyncIterator[ClientResponse]:
        """One try; raises what went wrong."""
        async with self._sent(self._find(), question, _STREAMED, Tries()) as response:
            if response.status >= 400:
                error = refusal(response.status, await response.read())
                raise Unavailable(str(error)) if _comes_back(response) else error
            yield response

    @asynccontextmanager
    async def _sent(
        self, to: Address, question: Question, timeout: ClientTimeout, tries: Tries
    ) -> AsyncIterator[ClientResponse]:
        async with self._http.request(
            question.method,
            to.url + question.path,
            params=dict(question.query),
            data=question.content,
            headers=to.headers | question.headers,
            timeout=timeout,
            trace_request_ctx=tries,
            allow_redirects=False,
        ) as response:
            yield response


_ANSWERED = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=ANSWER_SECONDS)
_STREAMED = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)


def _comes_back(response: ClientResponse) -> bool:
    """A server that stops says so, a proxy that it is away; who comes too often is told when to come."""
    if response.status == 503:
        closing = response.headers.get("connection", "").lower() == "close"
        return closing or "retry-after" in response.headers
    return response.status in _PASSING


def _pause_of(response: ClientResponse) -> float:
    said = response.headers.get("retry-after", "")
    return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0.0
