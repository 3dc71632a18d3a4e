"""Open the sender of webhooks, if the configuration enables it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncagents.config.config import WebhooksConfig
from asyncagents.engine.webhook.delivery import SendWebhook, refuse_delivery


@asynccontextmanager
async def open_webhooks(webhooks: WebhooksConfig) -> AsyncIterator[SendWebhook]:
    if not webhooks.enabled:
        yield refuse_delivery
        return
    from asyncagents.tools.web.webhook_sender import open_webhook_sender  # start-up

    async with open_webhook_sender(webhooks.hosts) as post:
        yield post
