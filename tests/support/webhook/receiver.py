"""Whoever wants to be told: a real server that keeps what is posted to it, and answers as it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from asyncagents.config.config import AsyncToolsConfig, WebhooksConfig
from asyncagents.domain.call.webhook import Delivery, DeliveryState
from asyncagents.domain.call.webhook_signature import ValidSignature, verify_signature
from asyncagents.engine.runtime.runtime import Runtime
from tests.support.wait import PATIENCE, wait_until

LOCAL_WEBHOOKS = AsyncToolsConfig(webhooks=WebhooksConfig(enabled=True, hosts=("127.0.0.1",)))
"""A runtime that tells whoever is on this machine."""


class ReceivedWebhook(Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_with(self, secret: str) -> bool:
        """By both schemes, at the time it says."""
        now = int(self.headers["webhook-timestamp"]) * 1000
        plain = {"x-webhook-signature": self.headers["x-webhook-signature"]}
        return all(
            verify_signature(each, self.body, [secret], now) == ValidSignature()
            for each in (self.headers, plain)
        )


class WebhookReceiver:
    def __init__(self) -> None:
        self.url = ""
        self.answers: list[int] = []
        """Statuses to answer with, one after the other; then 200."""
        self.silent = False
        """Takes what is posted, and never answers."""
        self.received: list[ReceivedWebhook] = []
        self.over = asyncio.Event()
        self._news = asyncio.Condition()

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        async with self._news:
            self.received.append(ReceivedWebhook(request.path_qs, headers, body))
            self._news.notify_all()
        if self.silent:
            await self.over.wait()
        return web.Response(status=self.answers.pop(0) if self.answers else 200)

    async def until(self, many: int = 1) -> ReceivedWebhook:
        """So many have come; returns the last of them."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.received) >= many)
        return self.received[many - 1]


@asynccontextmanager
async def open_receiver() -> AsyncIterator[WebhookReceiver]:
    receiver, app = WebhookReceiver(), web.Application()
    app.router.add_post("/{path:.*}", receiver.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook?token=hush"
        yield receiver
    finally:
        receiver.over.set()
        await runner.cleanup()


async def wait_until_state(runtime: Runtime, state: DeliveryState, *, many: int = 1) -> tuple[Delivery, ...]:
    """So many are in this state."""
    return await wait_until_deliveries(runtime, lambda each: each.state == state, many=many)


async def wait_until_deliveries(runtime: Runtime, holds: Any, *, many: int = 1) -> tuple[Delivery, ...]:
    """No event tells how a webhook went."""

    async def look() -> tuple[Delivery, ...] | None:
        found = tuple(each for each in await runtime.deliveries.list(limit=1_000) if holds(each))
        return found if len(found) >= many else None

    return await wait_until(look)
