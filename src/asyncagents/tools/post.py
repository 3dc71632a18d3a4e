"""Who tells others by webhook: nobody, unless it is configured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncagents.config.config import WebhooksConfig
from asyncagents.engine.post import Post, switched_off


@asynccontextmanager
async def open_post(webhooks: WebhooksConfig) -> AsyncIterator[Post]:
    if not webhooks.enabled:
        yield switched_off
        return
    from asyncagents.tools.outgoing import open_outgoing  # start-up: most tell nobody

    async with open_outgoing(webhooks.hosts) as post:
        yield post
