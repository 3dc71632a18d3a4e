"""Open the sender of webhooks, if the configuration enables it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncagents.config.config import WebhooksConfig
from asyncagents.engine.webhook.delivery import Post, switched_off


@asynccontextmanager
async def open_post(webhooks: WebhooksConfig) -> AsyncIterator[Post]:
    if not webhooks.enabled:
        yield switched_off
        return
    from asyncagents.tools.web.webhook_sender import open_outgoing  # start-up: most programs send no webhooks

    async with open_outgoing(webhooks.hosts) as post:
        yield post
