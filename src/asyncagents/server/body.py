"""The body of a request: bounded, in time, and JSON of one type."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import msgspec

from asyncagents.domain.delivered import MOST_BESIDE
from asyncagents.domain.strict_json import read_json
from asyncagents.errors import InvalidInput
from asyncagents.server.http import JSON, Answer, Pairs, Request, refused

SLOWEST = 100_000
"""Bytes a second that a body must come with, once the grace is over."""

DISCARD_BYTES = 16 * 1024 * 1024

SMALL_BYTES = 64 * 1024
"""Of each body, for which there is always room."""

MOST_TEXTS = 100_000
"""Whose length does not count."""

CLOSE: Pairs = (("connection", "close"),)
STOPPING: Pairs = (*CLOSE, ("retry-after", "1"))
"""It comes back; a proxy hands on the second word only."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]
Fits: TypeAlias = Callable[[int], bool]
"""Whether a body may grow to so many bytes."""
T = TypeVar("T")


class Gone(Exception):
    """Whoever asked has hung up."""


class Room:
    """For bodies of senders who have not proved anything yet: together they are kept within it."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def opened(self) -> Iterator[Fits]:
        """For one of them, for as long as it is kept."""
        held = 0

        def fits(size: int) -> bool:
            nonlocal held
            more = max(0, size - SMALL_BYTES) - held
            if more > self._left:
                return False
            held, self._left = held + more, self._left - more
            return True

        try:
            yield fits
        finally:
            self._left += held


def always(size: int) -> bool:
    """For those whom we know."""
    return True


class Body:
    """What comes after the head of a request, if anything does."""

    def __init__(self, receive: Receive, request: Request) -> None:
        self._receive = receive
        self._said = request.header("content-length")
        self._invited = bool(request.header("expect"))
        self.ended = self._said in {"", "0"} and not request.header("transfer-encoding")
        """Nothing more of it comes."""

    async def read(self, most: int, seconds: float, fits: Fits = always) -> bytes | Answer:
        """All of it, or why not. What is too large is not kept, nor read to its end."""
        if len(self._said) > 18 or int(self._said or 0) > most:
            return _too_large(most)
        pieces, size, begin = [], 0, asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds) as deadline:
                while not self.ended:
                    pieces.append(await self._piece())
                    size += len(pieces[-1])
                    if size > most:
                        return _too_large(most)
                    if not fits(size):
                        return refused(429, _NO_ROOM, (("retry-after", "1"),))
                    if not self.ended:
                        deadline.reschedule(begin + seconds + size / SLOWEST)
        except TimeoutError:
            return refused(408, "the body came too slowly; send it again")
        return b"".join(pieces)

    async def discard(self, seconds: float) -> None:
        """For a while, so that whoever still sends comes to read the answer: it is lost with a connection
        that is closed on him. Who waits to be told to go on is not told."""
        if self.ended:
            return
        left = 0 if self._invited else DISCARD_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while left > 0 and not self.ended:
                    left -= len(await self._piece())

    async def gone(self) -> None:
        """Returns when its sender has hung up; all of it has come."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _piece(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self.ended = not message.get("more_body")
        return bytes(message.get("body", b""))


_NO_ROOM = "too much comes at once; go on in 1 s, the same is done once"


def _too_large(most: int) -> Answer:
    return refused(413, f"a body has at most {most // 1024} KiB here")


def is_json(request: Request) -> bool:
    kind = request.header("content-type").partition(";")[0].strip().lower()
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def read(request: Request, kind: type[T]) -> T:
    """Raises `InvalidInput`, which says where. An empty body is an empty object."""
    _check_weight(request.body)
    try:
        return msgspec.convert(read_json(request.body or b"{}"), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body is not what is wanted: {error}") from None


# Nothing in it is tried twice: a body without an end is passed over as fast as any other.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def _check_weight(raw: bytes) -> None:
    """Megabytes of text are read at once; of as many brackets and numbers everybody would have to wait."""
    if len(raw) <= MOST_BESIDE:
        return
    texts = sum(len(found[0]) for found in islice(_TEXT.finditer(raw), MOST_TEXTS))
    if len(raw) - texts > MOST_BESIDE:
        raise InvalidInput("beside its texts the body has more than 1 MiB; put what is large into a text")
