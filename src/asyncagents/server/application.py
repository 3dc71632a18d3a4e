"""The ASGI application: authorization, routing, the body, the handler, and sending the response."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from msgspec.structs import replace

from asyncagents.errors import RequestError
from asyncagents.server.auth import Authorizer
from asyncagents.server.errors import OWN_PREFIXES, opencode_error
from asyncagents.server.http.body import (
    CLOSE_HEADERS,
    STOPPING_HEADERS,
    BodyBudget,
    ClientDisconnected,
    Fits,
    Receive,
    RequestBody,
    is_json,
    unlimited,
)
from asyncagents.server.http.messages import (
    PEER,
    AnyResponse,
    Pairs,
    Request,
    Response,
    StreamingResponse,
    error_response,
    handle_errors,
    plain_error,
)
from asyncagents.server.http.peer import Peer
from asyncagents.server.http.sse import Send, StreamSender
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.mount import Mount, MountedExchange
from asyncagents.server.rate_limit import RateLimit, StreamLimit
from asyncagents.server.route import Route, RouteMatch, RouteTable, ServerContext

MOST_FIELDS = 100
"""Max fields of a query string."""

CHUNK_BYTES = 64 * 1024
"""Response bodies are sent in chunks of this size, so that a client that does not read stops the sending."""

Scope: TypeAlias = dict[str, Any]
RouteLookup: TypeAlias = RouteMatch | tuple[str, ...]
"""The matching route, or the methods that the path supports (none: unknown path)."""

_STREAM_HEADERS: Pairs = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
    ("x-content-type-options", "nosniff"),
)
_RESPONSE_HEADERS: Pairs = (("x-content-type-options", "nosniff"), ("cache-control", "no-store"))


class Application:
    """The ASGI callable that uvicorn runs for each request."""

    def __init__(
        self,
        server: ServerContext,
        authorizer: Authorizer,
        routes: Iterable[Route],
        rates: RateLimit,
        *,
        timeouts: Timeouts | None = None,
        mounts: Iterable[Mount] = (),
    ) -> None:
        self._context = server
        self._authorizer = authorizer
        self._table = RouteTable(routes)
        self._mounts = {mount.path: mount for mount in mounts}
        self._rate_limit = rates
        self._timeouts = timeouts or Timeouts()
        self._body_budget = BodyBudget(self._timeouts.unverified_bytes)
        self._stream_limit = StreamLimit(self._timeouts.tokenless_streams)
        self._deadlines: set[asyncio.Timeout] = set()
        self._stop_at: float | None = None
        """Loop time by which all responses must be made; None: the server is not stopping."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP scopes are supported"
        request = _parse_request(scope)
        if request is None:
            cors = self._authorizer.cors_headers(
                Request(method=scope["method"], path=scope["raw_path"].decode("latin-1"))
            )
            await _send_response(
                send,
                error_response(400, "the request is not valid text, or contains a NUL character"),
                (*cors, *CLOSE_HEADERS),
            )
            return
        try:
            body = RequestBody(receive, request)
            if (mount := self._mounts.get(request.path)) is not None:
                await self._serve_mount(mount, request, scope=scope, body=body, send=send)
            else:
                await self._respond(request, body, send)
        except ClientDisconnected:
            pass
        finally:
            self._stream_limit.leave(request.peer)

    async def _serve_mount(
        self, mount: Mount, request: Request, *, scope: Scope, body: RequestBody, send: Send
    ) -> None:
        cors = self._authorizer.cors_headers(request)
        reply = await mount.refuse(self._authorizer, request) or await mount.read_body(
            body, self._timeouts.body_seconds
        )
        if isinstance(reply, Response):
            await body.discard(self._timeouts.discard_seconds)
            await _send_response(send, reply, (*cors, *_close_if_unread(body)))
            return
        exchange = MountedExchange(scope, body, send, content=reply, cors=cors)
        with self._context.runtime.counters.count_client_request():
            await mount.serve(exchange, self._context.closing)

    async def _respond(self, request: Request, body: RequestBody, send: Send) -> None:
        began = asyncio.get_running_loop().time()
        found = self._table.find(request.method, request.path)
        try:
            reply = await self._cancel_on_disconnect(request, body, found)
            if isinstance(reply, Response) and not self._context.closing.is_set():
                await body.discard(self._timeouts.discard_seconds)
        except ClientDisconnected:
            return
        self._count_request(found, reply, asyncio.get_running_loop().time() - began)
        cors = self._authorizer.cors_headers(request)
        match reply:
            case Response():
                await _send_response(
                    send, reply, (*cors, *_close_if_unread(body)), head=request.method == "HEAD"
                )
            case StreamingResponse(frames) if request.method == "HEAD":
                await frames.aclose()
                await _send_response(send, Response(200, content_type="text/event-stream"), cors)
            case StreamingResponse():
                await self._send_stream(reply, body, send, cors)

    def _count_request(self, found: RouteLookup, reply: AnyResponse, seconds: float) -> None:
        """Count the request under its route template; unknown paths share the label `none`."""
        name = f"{found.route.method} {found.route.path}" if isinstance(found, RouteMatch) else "none"
        status = reply.status if isinstance(reply, Response) else 200
        self._context.runtime.counters.count_request(name, status, seconds)

    def stop(self) -> None:
        """Set a deadline for all requests in progress; `ServerContext.closing` ends the streams."""
        self._stop_at = asyncio.get_running_loop().time() + self._timeouts.stop_seconds
        for deadline in self._deadlines:
            deadline.reschedule(self._stop_at)

    async def _cancel_on_disconnect(
        self, request: Request, body: RequestBody, found: RouteLookup
    ) -> AnyResponse:
        """Cancel a GET or HEAD request when its client disconnects; requests that change something go on."""
        if request.method not in {"GET", "HEAD"} or not body.ended:
            return await self._with_deadline(request, body, found)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._with_deadline(request, body, found))
            leaving = group.create_task(body.wait_for_disconnect())
            await asyncio.wait((looking, leaving), return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not looking.done():
                looking.cancel()
        if looking.cancelled():
            raise ClientDisconnected
        return looking.result()

    async def _with_deadline(self, request: Request, body: RequestBody, found: RouteLookup) -> AnyResponse:
        """Respond with 503 if the handler exceeds the stop deadline; until the server stops there is none."""
        try:
            async with asyncio.timeout_at(self._stop_at) as deadline:
                self._deadlines.add(deadline)
                try:
                    return await self._authorize(request, body, found)
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError:
            return error_response(
                503,
                "the server is stopping; send the request again later: it takes effect only once",
                STOPPING_HEADERS,
            )

    async def _authorize(self, request: Request, body: RequestBody, found: RouteLookup) -> AnyResponse:
        stranger = self._authorizer.check_host(request)
        if stranger is not None:
            return stranger
        if request.method == "OPTIONS":
            return Response(204)
        if isinstance(found, tuple):
            return _route_not_found(found)
        refusal = (
            await self._authorizer.authorize(found.route, request)
            or self._rate_limit.check(found.route, request)
            or self._stream_limit.enter(found.route, request.peer)
        )
        if refusal is not None:
            return refusal
        with (
            self._body_budget.reserve()
            if found.route.access == "signature"
            else nullcontext(unlimited) as fits,
            nullcontext() if found.route.monitors else self._context.runtime.counters.count_client_request(),
        ):
            return await self._dispatch(found, request, body, fits)

    async def _dispatch(
        self, route_match: RouteMatch, request: Request, body: RequestBody, fits: Fits
    ) -> AnyResponse:
        content: bytes | Response = b""
        if route_match.route.changes:
            content = await body.read(route_match.route.most_bytes, self._timeouts.body_seconds, fits)
        if isinstance(content, Response):
            return content
        if content and route_match.route.access != "signature" and not is_json(request):
            return error_response(415, "send JSON, with content-type: application/json")
        request = replace(
            request, body=content, params=route_match.params, wait_for_disconnect=body.wait_for_disconnect
        )
        with self._context.runtime.counters.use_parent(request.header("traceparent")):
            return await handle_errors(
                route_match.route.handler(self._context, request),
                request,
                _error_writer(route_match.route, request),
            )

    async def _send_stream(
        self, stream: StreamingResponse, body: RequestBody, send: Send, cors: Pairs
    ) -> None:
        """Send the frames until they end, the client disconnects, or the server stops."""
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": _encode_headers((*_STREAM_HEADERS, *cors)),
            }
        )
        sender = StreamSender(stream, send)
        with self._context.runtime.counters.count_stream():
            await self._stream_until_closed(sender, body)
        await send({"type": "http.response.body", "body": b""})

    async def _stream_until_closed(self, sender: StreamSender, body: RequestBody) -> None:
        async with asyncio.TaskGroup() as group:
            ends: list[asyncio.Task[Any]] = [
                group.create_task(sender.send_all()),
                group.create_task(sender.send_heartbeats()),
                group.create_task(body.wait_for_disconnect()),
                group.create_task(self._context.closing.wait()),
            ]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for each in ends:
                each.cancel()


async def _send_response(send: Send, answer: Response, more: Pairs, *, head: bool = False) -> None:
    own: Pairs = (*_RESPONSE_HEADERS, *more, *answer.headers)
    if answer.status != 204:
        own = (("content-type", answer.content_type), ("content-length", str(len(answer.body))), *own)
    await send({"type": "http.response.start", "status": answer.status, "headers": _encode_headers(own)})
    body = memoryview(b"" if head else answer.body)
    while len(body) > CHUNK_BYTES:
        await send({"type": "http.response.body", "body": body[:CHUNK_BYTES], "more_body": True})
        body = body[CHUNK_BYTES:]
    await send({"type": "http.response.body", "body": body})


def _error_writer(route: Route, request: Request) -> Callable[[RequestError], Response]:
    return (
        plain_error
        if route.path.startswith(OWN_PREFIXES)
        else partial(opencode_error, route=route.path, request=request)
    )


def _close_if_unread(body: RequestBody) -> Pairs:
    """Close the connection if the body was not read to its end: its sender could hold it open."""
    return () if body.ended else CLOSE_HEADERS


def _encode_headers(headers: Pairs) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def _route_not_found(methods: tuple[str, ...]) -> Response:
    if not methods:
        return error_response(404, "unknown route; /doc lists all routes")
    return error_response(
        405,
        f"method not allowed; this route supports {' and '.join(methods)}",
        (("allow", ", ".join(methods)),),
    )


def _parse_request(scope: Scope) -> Request | None:
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
