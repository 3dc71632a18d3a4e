"""A step under hooks: the request before it is sent, each text before it is kept as finished."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.id import PartId
from asyncagents.domain.message import AssistantMessage
from asyncagents.domain.part import TextPart
from asyncagents.engine.draft import Draft
from asyncagents.engine.hook import Hooks
from asyncagents.llm.model import ModelEvent, Request

HURRY_SECONDS = 2.0


async def shaped(hooks: Hooks, message: AssistantMessage, request: Request) -> Request:
    """Its options and its system text; what was told before is not theirs to change."""
    if "chat.params" in hooks.names:
        request = replace(request, options=await hooks.chat_params(message, request.options))
    if "experimental.chat.system.transform" in hooks.names:
        request = replace(request, system=await hooks.system(message, request.system))
    return request


async def complete(hooks: Hooks, draft: Draft, event: ModelEvent) -> None:
    """Before the event is taken: should the turn be interrupted meanwhile, the text is still open."""
    part = draft.ending(event)
    if part is not None:
        await _complete(hooks, draft, part)


async def complete_rest(hooks: Hooks, draft: Draft, *, hurry: bool) -> None:
    """`hurry`: somebody waits for the turn to be over."""
    for part in draft.left_open():
        with suppress(TimeoutError):
            async with asyncio.timeout(HURRY_SECONDS if hurry else None):
                await _complete(hooks, draft, part)


async def _complete(hooks: Hooks, draft: Draft, part: TextPart) -> None:
    finished = await hooks.text_complete(part)
    if finished.text != part.text:
        draft.rewrite(PartId(part.id), finished.text, continues=finished.continues)
