"""An ASGI application of another room at one path, behind the same checks as all routes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.server.auth import Authorizer
from asyncagents.server.http.body import MOST_PROMPT_BYTES, Receive, RequestBody
from asyncagents.server.http.messages import AnyResponse, Pairs, Request, Response, error_response
from asyncagents.server.http.sse import Send
from asyncagents.server.route import Method, Route, ServerContext

Scope: TypeAlias = dict[str, Any]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

_METHODS: tuple[Method, ...] = ("GET", "POST", "DELETE")


class Mount(Struct, frozen=True, kw_only=True):
    """`app` gets the requests to `path` that carry the token; it never sees others."""

    path: str
    app: AsgiApp

    async def refuse(self, authorizer: Authorizer, request: Request) -> Response | None:
        """Check a request as one that changes something; return the refusal, None if it may pass."""
        if (stranger := authorizer.check_host(request)) is not None:
            return stranger
        if request.method == "OPTIONS":
            return Response(204)
        if request.method not in _METHODS:
            allowed = ", ".join(_METHODS)
            return error_response(
                405, f"method not allowed; this path supports {allowed}", (("allow", allowed),)
            )
        route = Route(method="POST", path=self.path, handler=_not_called, access="token", summary="")
        return await authorizer.authorize(route, request)

    async def read_body(self, body: RequestBody, seconds: float) -> bytes | Response:
        """Read the whole body, up to the size of a prompt."""
        return await body.read(MOST_PROMPT_BYTES, seconds)

    async def serve(self, exchange: "MountedExchange", closing: asyncio.Event) -> None:
        """Pass a request on; the application is cancelled when `closing` is set."""
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self.app(exchange.scope, exchange.receive, exchange.send))
            stopping = group.create_task(closing.wait())
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            serving.cancel()
            stopping.cancel()
        await exchange.end()


class MountedExchange:
    """A request whose body was read, and its response, as the mounted application sees them."""

    def __init__(self, scope: Scope, body: RequestBody, send: Send, *, content: bytes, cors: Pairs) -> None:
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        self.scope = {**scope, "headers": headers}  # blanks around a value are not part of it
        self._body = body
        self._send = send
        self._content: bytes | None = content
        self._is_begun = self._is_ended = False
        self._cors = [(name.encode(), value.encode()) for name, value in cors]

    async def receive(self) -> dict[str, Any]:
        if (content := self._content) is not None:
            self._content = None
            return {"type": "http.request", "body": content, "more_body": False}
        await self._body.wait_for_disconnect()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self._is_begun = True
        self._is_ended = message["type"] == "http.response.body" and not message.get("more_body")
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *self._cors]}
        await self._send(message)

    async def end(self) -> None:
        """End a response that the application did not end."""
        if not self._is_begun:
            await self.send({"type": "http.response.start", "status": 503, "headers": []})
        if not self._is_ended:
            await self.send({"type": "http.response.body", "body": b""})


async def _not_called(server: ServerContext, request: Request) -> AnyResponse:
    raise AssertionError("a mount has no handler")
