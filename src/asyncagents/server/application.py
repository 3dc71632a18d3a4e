"""The ASGI application: authorization, routing, the body, the handler, and sending the response."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from msgspec.structs import replace

from asyncagents.errors import RequestError
from asyncagents.server.auth import Gate
from asyncagents.server.errors import OURS, told
from asyncagents.server.http.body import CLOSE, STOPPING, Body, Fits, Gone, Receive, Room, always, is_json
from asyncagents.server.http.messages import Answer, Pairs, Reply, Request, Stream, answered, plainly, refused
from asyncagents.server.http.peer import Peer
from asyncagents.server.http.sse import Send, Sender
from asyncagents.server.http.timeouts import Patience
from asyncagents.server.rate_limit import Rates, StreamShare
from asyncagents.server.route import Found, Route, Site, Table

MOST_FIELDS = 100
"""Max fields of a query string."""

PEER = "asyncagents.peer"
"""Key in the ASGI scope's `state` under which the connection passes its `Peer`."""

PIECE = 64 * 1024
"""Response bodies are sent in chunks of this size, so that a client that does not read stops the sending."""

Scope: TypeAlias = dict[str, Any]
Sought: TypeAlias = Found | tuple[str, ...]
"""The matching route, or the methods that the path supports (none: unknown path)."""

_STREAM: Pairs = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
    ("x-content-type-options", "nosniff"),
)
_ALWAYS: Pairs = (("x-content-type-options", "nosniff"), ("cache-control", "no-store"))


class Application:
    """The ASGI callable that uvicorn runs for each request."""

    def __init__(
        self,
        site: Site,
        gate: Gate,
        routes: Iterable[Route],
        rates: Rates,
        *,
        patience: Patience | None = None,
    ) -> None:
        self._site = site
        self._gate = gate
        self._table = Table(routes)
        self._rates = rates
        self._patience = patience or Patience()
        self._room = Room(self._patience.stranger_bytes)
        self._streams = StreamShare(self._patience.tokenless_streams)
        self._deadlines: set[asyncio.Timeout] = set()
        self._end: float | None = None
        """Loop time by which all responses must be made; None: the server is not stopping."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP scopes are supported"
        request = _request(scope)
        if request is None:
            cors = self._gate.cors(Request(method=scope["method"], path=scope["raw_path"].decode("latin-1")))
            await _tell(
                send,
                refused(400, "the request is not valid text, or contains a NUL character"),
                (*cors, *CLOSE),
            )
            return
        try:
            await self._respond(request, Body(receive, request), send)
        finally:
            self._streams.leave(request.peer)

    async def _respond(self, request: Request, body: Body, send: Send) -> None:
        began = asyncio.get_running_loop().time()
        found = self._table.find(request.method, request.path)
        try:
            reply = await self._while_there(request, body, found)
            if isinstance(reply, Answer) and not self._site.closing.is_set():
                await body.discard(self._patience.discard_seconds)
        except Gone:
            return
        self._count(found, reply, asyncio.get_running_loop().time() - began)
        cors = self._gate.cors(request)
        match reply:
            case Answer():
                await _tell(send, reply, (*cors, *_unread(body)), head=request.method == "HEAD")
            case Stream(frames) if request.method == "HEAD":
                await frames.aclose()
                await _tell(send, Answer(200, kind="text/event-stream"), cors)
            case Stream():
                await self._pump(reply, body, send, cors)

    def _count(self, found: Sought, reply: Reply, seconds: float) -> None:
        """Count the request under its route template; unknown paths share the label `none`."""
        name = f"{found.route.method} {found.route.path}" if isinstance(found, Found) else "none"
        status = reply.status if isinstance(reply, Answer) else 200
        self._site.runtime.counters.request(name, status, seconds)

    def stop(self) -> None:
        """Set a deadline for all requests in progress; `ServerContext.closing` ends the streams."""
        self._end = asyncio.get_running_loop().time() + self._patience.stop_seconds
        for deadline in self._deadlines:
            deadline.reschedule(self._end)

    async def _while_there(self, request: Request, body: Body, found: Sought) -> Reply:
        """Cancel a GET or HEAD request when its client disconnects; requests that change something go on."""
        if request.method not in {"GET", "HEAD"} or not body.ended:
            return await self._in_time(request, body, found)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._in_time(request, body, found))
            leaving = group.create_task(body.gone())
            await asyncio.wait((looking, leaving), return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not looking.done():
                looking.cancel()
        if looking.cancelled():
            raise Gone
        return looking.result()

    async def _in_time(self, request: Request, body: Body, found: Sought) -> Reply:
        """Respond with 503 if the handler exceeds the stop deadline; until the server stops there is none."""
        try:
            async with asyncio.timeout_at(self._end) as deadline:
                self._deadlines.add(deadline)
                try:
                    return await self._reply(request, body, found)
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError:
            return refused(
                503,
                "the server is stopping; send the request again later: it takes effect only once",
                STOPPING,
            )

    async def _reply(self, request: Request, body: Body, found: Sought) -> Reply:
        stranger = self._gate.reached(request)
        if stranger is not None:
            return stranger
        if request.method == "OPTIONS":
            return Answer(204)
        if isinstance(found, tuple):
            return _no_route(found)
        refusal = (
            await self._gate.admit(found.route, request)
            or self._rates.refusal(found.route, request)
            or self._streams.refuse(found.route, request.peer)
        )
        if refusal is not None:
            return refusal
        with self._room.opened() if found.route.access == "signature" else nullcontext(always) as fits:
            return await self._handled(found, request, body, fits)

    async def _handled(self, found: Found, request: Request, body: Body, fits: Fits) -> Reply:
        content: bytes | Answer = b""
        if found.route.changes:
            content = await body.read(found.route.most_bytes, self._patience.body_seconds, fits)
        if isinstance(content, Answer):
            return content
        if content and found.route.access != "signature" and not is_json(request):
            return refused(415, "send JSON, with content-type: application/json")
        request = replace(request, body=content, params=found.params, gone=body.gone)
        with self._site.runtime.counters.under(request.header("traceparent")):
            return await answered(found.route.handler(self._site, request), _teller(found.route, request))

    async def _pump(self, stream: Stream, body: Body, send: Send, cors: Pairs) -> None:
        """Send the frames until they end, the client disconnects, or the server stops."""
        await send({"type": "http.response.start", "status": 200, "headers": _raw((*_STREAM, *cors))})
        sender = Sender(stream, send)
        with self._site.runtime.counters.stream():
            await self._until_over(sender, body)
        await send({"type": "http.response.body", "body": b""})

    async def _until_over(self, sender: Sender, body: Body) -> None:
        async with asyncio.TaskGroup() as group:
            ends: list[asyncio.Task[Any]] = [
                group.create_task(sender.send_all()),
                group.create_task(sender.beat()),
                group.create_task(body.gone()),
                group.create_task(self._site.closing.wait()),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for each in ends:
                each.cancel()


async def _tell(send: Send, answer: Answer, more: Pairs, *, head: bool = False) -> None:
    own: Pairs = (*_ALWAYS, *more, *answer.headers)
    if answer.status != 204:
        own = (("content-type", answer.kind), ("content-length", str(len(answer.body))), *own)
    await send({"type": "http.response.start", "status": answer.status, "headers": _raw(own)})
    body = memoryview(b"" if head else answer.body)
    while len(body) > PIECE:
        await send({"type": "http.response.body", "body": body[:PIECE], "more_body": True})
        body = body[PIECE:]
    await send({"type": "http.response.body", "body": body})


def _teller(route: Route, request: Request) -> Callable[[RequestError], Answer]:
    return plainly if route.path.startswith(OURS) else partial(told, route=route.path, request=request)


def _unread(body: Body) -> Pairs:
    """Close the connection if the body was not read to its end: its sender could hold it open."""
    return () if body.ended else CLOSE


def _raw(headers: Pairs) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def _no_route(methods: tuple[str, ...]) -> Answer:
    if not methods:
        return refused(404, "unknown route; /doc lists all routes")
    return refused(
        405,
        f"method not allowed; this route supports {' and '.join(methods)}",
        (("allow", ", ".join(methods)),),
    )


def _request(scope: Scope) -> Request | None:
    """Parse an ASGI scope; the path stays percent-encoded. Returns None if the request is not valid text."""
    try:
        query = parse_qsl(
            scope["query_string"].decode(),
            keep_blank_values=True,
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
        if any("\0" in text for pair in query for text in pair):
            return None
        return Request(
            method=scope["method"],
            path=scope["raw_path"].decode("ascii"),
            query=tuple(query),
            headers=tuple(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
            ),
            client=(scope.get("client") or ("",))[0],
            peer=scope.get("state", {}).get(PEER) or Peer(),
        )
    except ValueError:
        return None
