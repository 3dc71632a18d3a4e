"""Requests that no HTTP client would send, put to the application as a server puts them."""

import asyncio
from typing import Any
from urllib.parse import quote, urlencode

from asyncagents.config.clock import SystemClock
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.server.application import Application
from asyncagents.server.auth import Authorizer
from asyncagents.server.http.messages import Pairs, Request, Response
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.rate_limit import RateLimit
from asyncagents.server.route import ServerContext
from asyncagents.server.routes import ROUTES

TOKEN = "0123456789abcdef" * 4
MANY = 1_000_000


def build_application(
    runtime: Runtime, directory: str = "/", *, timeouts: Timeouts | None = None
) -> Application:
    """With the token above, and no limit to how often one may come."""
    clock = SystemClock()
    server = ServerContext(
        runtime=runtime, clock=clock, started=clock.now(), closing=asyncio.Event(), directory=directory
    )
    rates = RateLimit(clock, a_second=MANY, at_once=MANY)
    return Application(server, Authorizer(token=TOKEN, is_loopback=True), ROUTES, rates, timeouts=timeouts)


async def call_application(app: Application, request: Request, *, token: str | None = TOKEN) -> Response:
    """As from this machine, with its length and, if there is one, the token."""
    sent: list[dict[str, Any]] = []
    proof: Pairs = (("authorization", f"Bearer {token}"),) if token else ()
    length: Pairs = (("content-length", str(len(request.body))),) if request.body else ()
    headers = (("host", "127.0.0.1:5165"), *proof, *length, *request.headers)

    coming = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        """Once it was all said, it is waited for the answer."""
        if not coming:
            await asyncio.Event().wait()
        return coming.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": request.method,
        "raw_path": quote(request.path, errors="surrogatepass").encode(),
        "query_string": urlencode(request.query, errors="surrogatepass").encode(),
        "headers": [(_bytes(name.lower()), _bytes(value)) for name, value in headers],
        "client": ("127.0.0.1", 50_000),
    }
    await app(scope, receive, send)
    return Response(sent[0]["status"], b"".join(message.get("body", b"") for message in sent))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
