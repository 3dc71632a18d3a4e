"""JSON requests with typed responses, used by all parts of the client."""

from collections.abc import Mapping
from itertools import pairwise
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import quote

from asyncagents.client.decode import decode_body
from asyncagents.client.transport import ApiRequest, Transport
from asyncagents.errors import NotFound


def fresh_key() -> str:
    return f"client-{token_hex(16)}"


T = TypeVar("T")


class JsonClient:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        return decode_body(await self.raw(path, query), kind)

    async def raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self.transport.request(ApiRequest(method="GET", path=path, query=query or {}))

    async def post(self, path: str, kind: type[T], body: Any = None, *, key: str | None = None) -> T:
        """Send a POST under `key` or a fresh one, so that a retry takes effect only once."""
        request = ApiRequest(method="POST", path=path, body=body, key=key or fresh_key())
        return decode_body(await self.transport.request(request), kind)

    async def put(self, path: str, kind: type[T], body: Any) -> T:
        request = ApiRequest(method="PUT", path=path, body=body)
        return decode_body(await self.transport.request(request), kind)

    async def delete(
        self, path: str, query: Mapping[str, str] | None = None, *, gone: bytes | None = None
    ) -> bytes:
        """Send a DELETE. `gone`: the body to return if a retry finds the object deleted already."""
        return await self.transport.request(
            ApiRequest(method="DELETE", path=path, query=query or {}, response_if_gone=gone)
        )


def build_path(*segments: str) -> str:
    """Join quoted path segments, so that no id changes the path. Raises `NotFound` for `.` and `..`."""
    for kind, segment in pairwise(segments):
        if segment in {".", ".."}:
            raise NotFound(kind.removesuffix("s"), segment)
    return "".join("/" + quote(segment, safe="") for segment in segments)
