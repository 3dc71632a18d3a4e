"""What a client does with the API: sessions, prompts, and waiting until they rest."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from benchmarks.opencode.wire import Link, Place

T = TypeVar("T")
CONNECTIONS = 16


class Client:
    """Some kept connections; each has one request under way."""

    def __init__(self, place: Place, links: list[Link]) -> None:
        self.place = place
        self._links = links

    async def ask(self, method: str, path: str, body: object = None, *, link: Link | None = None) -> bytes:
        raw = None if body is None else msgspec.json.encode(body)
        return await (link or self._links[0]).ask(self.place.request(method, path, raw))

    async def create(self, title: str, *, parent: str | None = None, link: Link | None = None) -> str:
        body = {"title": title} if parent is None else {"title": title, "parentID": parent}
        made = msgspec.json.decode(await self.ask("POST", "/session", body, link=link), type=dict[str, Any])
        return str(made["id"])

    async def prompt(self, session: str, text: str, *, link: Link | None = None) -> None:
        body = {"parts": [{"type": "text", "text": text}]}
        await self.ask("POST", f"/session/{session}/prompt_async", body, link=link)

    async def messages(self, session: str) -> list[dict[str, Any]]:
        raw = await self.ask("GET", f"/session/{session}/message")
        return msgspec.json.decode(raw, type=list[dict[str, Any]])

    async def spread(self, work: Sequence[T], do: Callable[[T, Link], Awaitable[None]]) -> list[float]:
        """All of it, by as many at a time as there are connections; how long each took."""
        left, spans = iter(work), []

        async def worker(link: Link) -> None:
            for each in left:
                began = time.perf_counter()
                await do(each, link)
                spans.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(worker(link))
        return spans

    def close(self) -> None:
        for link in self._links:
            link.close()


def open_client(place: Place, connections: int = CONNECTIONS) -> Client:
    return Client(place, [Link(place) for _ in range(connections)])


def finish_of(messages: list[dict[str, Any]]) -> str | None:
    last = messages[-1]["info"] if messages else {}
    return last.get("finish") if last.get("role") == "assistant" else None


def text_of(message: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part["type"] == "text")
