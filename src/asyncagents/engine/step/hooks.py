"""Hooks of a step: they transform the request before it is sent, and each text before it is stored."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.id import PartId
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.workplace.hooks import Hooks
from asyncagents.llm.model import ChatRequest, ModelEvent

ABORTED_HOOK_SECONDS = 2.0


async def transform_request(hooks: Hooks, message: AssistantMessage, request: ChatRequest) -> ChatRequest:
    """Let hooks change the options and the system prompt of a request; its messages stay as they are."""
    if "chat.params" in hooks.names:
        request = replace(request, options=await hooks.chat_params(message, request.options))
    if "experimental.chat.system.transform" in hooks.names:
        request = replace(request, system=await hooks.system(message, request.system))
    return request


async def transform_text(hooks: Hooks, draft: Draft, event: ModelEvent) -> None:
    """Transform the text that an event ends. Call it before applying the event: an abort leaves it open."""
    part = draft.ending_text(event)
    if part is not None:
        await _transform_part(hooks, draft, part)


async def transform_open_texts(hooks: Hooks, draft: Draft, *, hurry: bool) -> None:
    """Transform the texts that the stream left open; `hurry`: the turn was interrupted, so limit the time."""
    for part in draft.open_texts():
        with suppress(TimeoutError):
            async with asyncio.timeout(ABORTED_HOOK_SECONDS if hurry else None):
                await _transform_part(hooks, draft, part)


async def _transform_part(hooks: Hooks, draft: Draft, part: TextPart) -> None:
    finished = await hooks.text_complete(part)
    if finished.text != part.text:
        draft.rewrite(PartId(part.id), finished.text, continues=finished.continues)
