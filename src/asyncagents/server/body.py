"""The body of a request: bounded, in time, and JSON of one type."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from asyncagents.domain.strict_json import read_json
from asyncagents.errors import InvalidInput
from asyncagents.server.http import JSON, Answer, Pairs, Request, refused

GRACE_SECONDS = 10.0
SLOWEST = 100_000
"""Bytes a second that a body must come with, once the grace is over."""

CLOSE: Pairs = (("connection", "close"),)

Receive: TypeAlias = Callable[[], Awaitable[Any]]
T = TypeVar("T")


class Gone(Exception):
    """Whoever asked has hung up."""


async def read_body(receive: Receive, request: Request, most: int) -> bytes | Answer:
    """All of it, or why not. What is too large is not read to its end."""
    said = request.header("content-length")
    if said and (not said.isdecimal() or len(said) > 18 or int(said) > most):
        return _too_large(most)
    if not has_body(request):
        return b""
    pieces, size, begin = [], 0, asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(GRACE_SECONDS) as deadline:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > most:
                    return _too_large(most)
                if not message.get("more_body"):
                    return b"".join(pieces)
                deadline.reschedule(begin + GRACE_SECONDS + size / SLOWEST)
    except TimeoutError:
        return refused(408, "the body came too slowly; send it again", CLOSE)


def has_body(request: Request) -> bool:
    return request.header("content-length") not in {"", "0"} or bool(request.header("transfer-encoding"))


def _too_large(most: int) -> Answer:
    return refused(413, f"a body has at most {most // 1024} KiB here", CLOSE)


def is_json(request: Request) -> bool:
    kind = request.header("content-type").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def read(request: Request, kind: type[T]) -> T:
    """Raises `InvalidInput`, which says where. An empty body is an empty object."""
    try:
        return msgspec.convert(read_json(request.body or b"{}"), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body is not what is wanted: {error}") from None
