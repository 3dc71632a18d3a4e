"""A scriptable model provider over real HTTP: OpenAI's chat completions and Anthropic's Messages.

`python -m asyncagents.testing.provider --port 4900` serves one for manual tests. A prompt may contain
its own reply, with the fields of a `Reply` (bytes in base64):
`[[{"text": "a long story", "chunks": 5, "gap": 0.1}]]`, or in a loop of tools
`[[{"steps": [{"tools": [{"name": "ls", "args": {}}]}, {"text": "done"}]}]]`.
"""

import argparse
import asyncio
import itertools
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from asyncagents.testing.provider_anthropic import anthropic_bytes, anthropic_error, anthropic_json
from asyncagents.testing.provider_openai import openai_bytes, openai_error, openai_json
from asyncagents.testing.provider_reply import OK, Reply, Script, Stamp, TokenUsage, ToolUse
from asyncagents.testing.provider_script import Playbook
from asyncagents.testing.provider_send import send_answer
from asyncagents.testing.provider_wire import ANTHROPIC, JSON, OPENAI, ProviderWire, build_answer

__all__ = [
    "Provider",
    "ReceivedRequest",
    "Reply",
    "Script",
    "Stamp",
    "TokenUsage",
    "ToolUse",
    "anthropic_bytes",
    "anthropic_error",
    "anthropic_json",
    "open_provider",
    "openai_bytes",
    "openai_error",
    "openai_json",
    "serve_provider",
]

HOST = "127.0.0.1"
MODELS = ("local",)
MAX_BODY = 64 * 1024 * 1024
BACKLOG = 4096
ACCEPT_TURNS = 3
"""Turns of the event loop until a connection that was accepted at the last moment is known, and is closed."""
STOP_SECONDS = 1.0
"""The shutdown timeout of aiohttp; handlers are cancelled when the provider closes."""


class ReceivedRequest(Struct, frozen=True):
    """A received request; the names of `headers` are in lower case."""

    wire: Literal["openai", "anthropic"]
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Provider:
    """A provider, opened by `open_provider`. `answered` + `disconnects` + `active` is `asked`.

    `answered` counts answers sent as scripted, including cut connections; `disconnects` counts clients
    that left before.
    """

    def __init__(self, playbook: Playbook, *, key: str | None, strict: bool, remember: bool) -> None:
        self.url = ""
        self.requests: list[ReceivedRequest] = []
        self.asked = 0
        self.active = 0
        self.peak = 0
        self.answered = 0
        self.disconnects = 0
        self._playbook = playbook
        self._key = key
        self._strict = strict
        self._remember = remember
        # Call ids must not repeat when a session uses another provider later.
        mine = secrets.token_hex(4)
        self._ids = (f"{mine}{number:x}" for number in itertools.count(1))
        self._tasks: set[asyncio.Task[Any]] = set()
        self._change = asyncio.Event()
        self._closing = False

    async def wait_requests(self, n: int) -> None:
        """Wait until `n` requests have arrived."""
        await self.wait_for(lambda: self.asked >= n)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked whenever one of the counts changes."""
        while not condition():
            await self._change.wait()

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.post("/v1/chat/completions", partial(self._answer, OPENAI)),
            web.post("/v1/messages", partial(self._answer, ANTHROPIC)),
            web.get("/v1/models", self._models),
        ]

    def close(self) -> None:
        """Cancel the open requests, which closes their connections."""
        self._closing = True
        for task in self._tasks:
            task.cancel()

    async def _models(self, request: web.Request) -> web.Response:
        wire = ANTHROPIC if "anthropic-version" in request.headers else OPENAI
        refused = self._check_key(wire, request)
        if refused is not None:
            body = wire.error(refused, Stamp(id=next(self._ids)))
            return web.Response(body=body, status=refused.status, content_type=JSON)
        return web.Response(body=wire.models(MODELS), content_type=JSON)

    async def _answer(self, wire: ProviderWire, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        response = web.StreamResponse()
        with self._in_flight():
            body = _parse(raw)
            self._record_request(wire, request, body or {})
            reply = self._check_key(wire, request) or self._reply(wire, request, body)
            await send_answer(
                request, response, build_answer(wire, reply, body or {}, next(self._ids)), reply
            )
        return response

    def _reply(self, wire: ProviderWire, request: web.Request, body: dict[str, Any] | None) -> Reply:
        if body is None:
            return Reply(status=400, error="The body must be a JSON object with a list of messages.")
        refusal = wire.refusal(body, request.headers) if self._strict else None
        return self._playbook.pick(body["messages"]) if refusal is None else Reply(status=400, error=refusal)

    def _check_key(self, wire: ProviderWire, request: web.Request) -> Reply | None:
        """Return the refusal of a request without the key; None if the key is right."""
        given = wire.key(request.headers)
        if self._key is None or given == self._key:
            return None
        return Reply(status=401, error="Incorrect API key provided." if given else "No API key was provided.")

    def _record_request(self, wire: ProviderWire, request: web.Request, body: dict[str, Any]) -> None:
        self.asked += 1
        if self._remember:
            headers = {name.lower(): value for name, value in request.headers.items()}
            self.requests.append(ReceivedRequest(wire.name, request.path, headers, body))
        self._signal_change()

    @contextmanager
    def _in_flight(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            yield
            self.answered += 1
        except ConnectionError:
            self.disconnects += 1  # aiohttp ends the connection by itself once the handler returns
        except asyncio.CancelledError:
            self.disconnects += not self._closing
            raise
        finally:
            self._tasks.discard(task)
            self.active -= 1
            self._signal_change()

    def _signal_change(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()


def _parse(raw: bytes) -> dict[str, Any] | None:
    """Parse a body; None if it is not an object with messages."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None
    messages = body.get("messages") if isinstance(body, dict) else None
    readable = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    return body if readable else None


@asynccontextmanager
async def open_provider(
    script: Script | None = None,
    *,
    otherwise: Reply = OK,
    port: int = 0,
    key: str | None = None,
    strict: bool = True,
    remember: bool = True,
) -> AsyncIterator[Provider]:
    """Serve a provider on this machine until the block ends; port 0 takes a free one.

    With a `key`, requests without it get a 401. `strict` refuses what the real providers refuse.
    Without `remember`, `requests` stays empty: for long runs.
    """
    provider = Provider(
        Playbook(script or {}, otherwise=otherwise), key=key, strict=strict, remember=remember
    )
    async with serve_provider(provider, port=port):
        yield provider


@asynccontextmanager
async def serve_provider(provider: Provider, *, port: int = 0) -> AsyncIterator[None]:
    """Serve a given provider until the block ends, e.g. one with its own playbook."""
    app = web.Application(client_max_size=MAX_BODY)
    app.add_routes(provider.routes())
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port, backlog=BACKLOG).start()
        provider.url = f"http://{HOST}:{runner.addresses[0][1]}"
        yield
    finally:
        provider.close()
        for site in list(runner.sites):
            await site.stop()
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        await runner.cleanup()


async def serve(port: int, key: str | None) -> None:
    """Serve until interrupted."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with open_provider(port=port, key=key, remember=False) as provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m asyncagents.testing.provider",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--key", help="refuse requests that do not carry this key")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.key))


if __name__ == "__main__":
    main()
