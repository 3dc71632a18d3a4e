"""Request bodies: reading them within size and time limits, and decoding JSON into a type."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from asyncagents.domain.call.incoming_result import MOST_BYTES_BESIDE_OUTPUT
from asyncagents.domain.strict_json import read_json
from asyncagents.errors import InvalidInput
from asyncagents.server.http.messages import JSON, Pairs, Request, Response, error_response

MIN_BYTES_PER_SECOND = 100_000
"""Minimum transfer rate of a body after the first `body_seconds`."""

DISCARD_BYTES = 16 * 1024 * 1024

FREE_BYTES = 64 * 1024
"""First bytes of each body, which do not count against the budget."""

MOST_PROMPT_BYTES = 10 * 1024 * 1024
"""Max bytes of a body with a prompt or a part: images are sent as data: URLs."""

MOST_STRINGS = 100_000
"""Strings whose length is subtracted when the structure of a body is measured."""

CLOSE_HEADERS: Pairs = (("connection", "close"),)
STOPPING_HEADERS: Pairs = (*CLOSE_HEADERS, ("retry-after", "1"))
"""Tell clients that the server comes back; proxies forward only `retry-after`."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]
Fits: TypeAlias = Callable[[int], bool]
"""Whether a body may grow to this many bytes."""
T = TypeVar("T")


class ClientDisconnected(Exception):
    """The client closed the connection."""


class BodyBudget:
    """Memory budget shared by the bodies of unauthenticated senders."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def reserve(self) -> Iterator[Fits]:
        """Yield the size check of one body; its bytes are released when the block ends."""
        held = 0

        def fits(size: int) -> bool:
            nonlocal held
            more = max(0, size - FREE_BYTES) - held
            if more > self._left:
                return False
            held, self._left = held + more, self._left - more
            return True

        try:
            yield fits
        finally:
            self._left += held


def unlimited(size: int) -> bool:
    """Accept any size, for authenticated senders."""
    return True


class RequestBody:
    """The body of one request, read from ASGI messages."""

    def __init__(self, receive: Receive, request: Request) -> None:
        self._receive = receive
        self._content_length = request.header("content-length")
        self._expects_continue = bool(request.header("expect"))
        self.ended = self._content_length in {"", "0"} and not request.header("transfer-encoding")
        """Whether the whole body has arrived."""

    async def read(self, most: int, seconds: float, fits: Fits = unlimited) -> bytes | Response:
        """Return the whole body, or an error response. A body that is too large is not read to its end."""
        if len(self._content_length) > 18 or int(self._content_length or 0) > most:
            return _too_large(most)
        pieces, size, begin = [], 0, asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds) as deadline:
                while not self.ended:
                    pieces.append(await self._receive_chunk())
                    size += len(pieces[-1])
                    if size > most:
                        return _too_large(most)
                    if not fits(size):
                        return error_response(429, _BUDGET_EXHAUSTED, (("retry-after", "1"),))
                    if not self.ended:
                        deadline.reschedule(begin + seconds + size / MIN_BYTES_PER_SECOND)
        except TimeoutError:
            return error_response(408, "the body arrived too slowly; send the request again")
        return b"".join(pieces)

    async def discard(self, seconds: float) -> None:
        """Read and drop the rest of the body for `seconds`, so that the client can read the response; skip it
        for `Expect: 100-continue`."""
        if self.ended:
            return
        left = 0 if self._expects_continue else DISCARD_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while left > 0 and not self.ended:
                    left -= len(await self._receive_chunk())

    async def wait_for_disconnect(self) -> None:
        """Return when the client disconnects. Call it only after the whole body has arrived."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _receive_chunk(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        self.ended = not message.get("more_body")
        return bytes(message.get("body", b""))


_BUDGET_EXHAUSTED = "too much unverified data at once; retry in 1 s: a request takes effect only once"


def _too_large(most: int) -> Response:
    return error_response(413, f"the body is too large: this route accepts at most {most // 1024} KiB")


def is_json(request: Request) -> bool:
    kind = request.header("content-type").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def read_body(request: Request, kind: type[T]) -> T:
    """Decode the JSON body as `kind`; an empty body is an empty object. Raises `InvalidInput`."""
    _check_structure_size(request.body)
    try:
        return msgspec.convert(read_json(request.body or b"{}"), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body does not match the schema: {error}") from None


# Possessive quantifiers: no backtracking, so an unterminated string is as fast as any other.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def _check_structure_size(raw: bytes) -> None:
    """Limit the JSON outside of strings: decoding megabytes of brackets and numbers blocks the event loop."""
    if len(raw) <= MOST_BYTES_BESIDE_OUTPUT:
        return
    texts = sum(len(found[0]) for found in islice(_STRING.finditer(raw), MOST_STRINGS))
    if len(raw) - texts > MOST_BYTES_BESIDE_OUTPUT:
        raise InvalidInput(
            "the body has more than 1 MiB outside of its strings; put large data into a string"
        )
