"""JSON requests with typed responses, used by all parts of the client."""

from collections.abc import Mapping
from itertools import pairwise
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import quote

from asyncagents.client.decode import read
from asyncagents.client.transport import Link, Question
from asyncagents.errors import NotFound


def fresh_key() -> str:
    return f"client-{token_hex(16)}"


T = TypeVar("T")


class Calls:
    def __init__(self, link: Link) -> None:
        self.link = link

    async def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        return read(await self.raw(path, query), kind)

    async def raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self.link.ask(Question(method="GET", path=path, query=query or {}))

    async def post(self, path: str, kind: type[T], body: Any = None, *, key: str | None = None) -> T:
        """Send a POST under `key` or a fresh one, so that a retry takes effect only once."""
        question = Question(method="POST", path=path, body=body, key=key or fresh_key())
        return read(await self.link.ask(question), kind)

    async def delete(
        self, path: str, query: Mapping[str, str] | None = None, *, gone: bytes | None = None
    ) -> bytes:
        """Send a DELETE. `gone`: the body to return if a retry finds the object deleted already."""
        return await self.link.ask(Question(method="DELETE", path=path, query=query or {}, gone=gone))


def at(*segments: str) -> str:
    """Join quoted path segments, so that no id changes the path. Raises `NotFound` for `.` and `..`."""
    for kind, segment in pairwise(segments):
        if segment in {".", ".."}:
            raise NotFound(kind.removesuffix("s"), segment)
    return "".join("/" + quote(segment, safe="") for segment in segments)
