"""Hooks of a step: they transform the request before it is sent, and each text before it is stored."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.id import PartId
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.llm.model import ModelEvent, Request

HURRY_SECONDS = 2.0


async def shaped(hooks: Hooks, message: AssistantMessage, request: Request) -> Request:
    """Let hooks change the options and the system prompt of a request; its messages stay as they are."""
    if "chat.params" in hooks.names:
        request = replace(request, options=await hooks.chat_params(message, request.options))
    if "experimental.chat.system.transform" in hooks.names:
        request = replace(request, system=await hooks.system(message, request.system))
    return request


async def complete(hooks: Hooks, draft: Draft, event: ModelEvent) -> None:
    """Transform the text that an event ends. Call it before applying the event: an abort leaves it open."""
    part = draft.ending(event)
    if part is not None:
        await _complete(hooks, draft, part)


async def complete_rest(hooks: Hooks, draft: Draft, *, hurry: bool) -> None:
    """Transform the texts that the stream left open; `hurry`: the turn was interrupted, so limit the time."""
    for part in draft.left_open():
        with suppress(TimeoutError):
            async with asyncio.timeout(HURRY_SECONDS if hurry else None):
                await _complete(hooks, draft, part)


async def _complete(hooks: Hooks, draft: Draft, part: TextPart) -> None:
    finished = await hooks.text_complete(part)
    if finished.text != part.text:
        draft.rewrite(PartId(part.id), finished.text, continues=finished.continues)
