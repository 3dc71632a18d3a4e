"""The provider of both servers: a prompt says how it is answered; titles and summaries are the same."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from asyncagents.testing.provider import Provider, serve_provider
from asyncagents.testing.provider_reply import Reply
from asyncagents.testing.provider_script import Playbook, user_texts

TITLE = Reply(text="A title")
SUMMARY = Reply(text="What was said so far.")
TITLED = ("title generator", "give a conversation a title")
SUMMED = ("[User]:", "Write a summary of the conversation so far")


class Servants(Playbook):
    """Titles and summaries are asked for with the conversation in them: its directives are not meant then."""

    def __init__(self) -> None:
        super().__init__({}, otherwise=Reply())

    def pick(self, messages: Sequence[Any]) -> Reply:
        system = "\n".join(str(each.get("content")) for each in messages if each.get("role") == "system")
        if any(mark in system.lower() for mark in TITLED):
            return TITLE
        last = user_texts(messages[-1]) if messages and messages[-1].get("role") == "user" else []
        if any(mark in text for mark in SUMMED for text in (*last, system)):
            return SUMMARY
        return super().pick(messages)


@asynccontextmanager
async def open_servants() -> AsyncIterator[Provider]:
    provider = Provider(Servants(), key=None, strict=False, remember=False)
    async with serve_provider(provider):
        yield provider
