"""The provider of both servers: a prompt says how it is answered; titles and summaries are the same."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from asyncagents.testing.provider import Provider, serve_provider
from asyncagents.testing.provider_reply import Reply, Script
from asyncagents.testing.provider_script import Playbook, user_texts

TITLE = Reply(text="A title")
NO_SCRIPT: Script = MappingProxyType({})
SUMMARY = Reply(text="What was said so far.")
TITLED = ("title generator", "give a conversation a title")
SUMMED = ("[User]:", "Write a summary of the conversation so far")


class Servants(Playbook):
    """Titles and summaries are asked for with the conversation in them: its directives are not meant then."""

    def __init__(self, script: Script = NO_SCRIPT) -> None:
        super().__init__(script, otherwise=Reply())

    def pick(self, messages: Sequence[Any]) -> Reply:
        system = "\n".join(str(each.get("content")) for each in messages if each.get("role") == "system")
        if any(mark in system.lower() for mark in TITLED):
            return TITLE
        last = user_texts(messages[-1]) if messages and messages[-1].get("role") == "user" else []
        if any(mark in text for mark in SUMMED for text in (*last, system)):
            return SUMMARY
        return super().pick(messages)


@asynccontextmanager
async def open_servants(
    script: Script = NO_SCRIPT, *, key: str | None = None, remember: bool = False
) -> AsyncIterator[Provider]:
    provider = Provider(Servants(script), key=key, strict=False, remember=remember)
    async with serve_provider(provider):
        yield provider
