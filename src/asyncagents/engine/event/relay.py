"""Relay deltas of streaming texts to listeners in other processes. Rows stay authoritative."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.part import ReasoningPart, TextPart
from asyncagents.domain.event import Event, PartDelta, PartUpdated
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.engine.event.bus import Bus, Relaying

GATHER_SECONDS = 0.05
"""Batch window: fast enough for readers, and twenty notifications a second per process are cheap."""
PAYLOAD = 7_000
"""A PostgreSQL notification carries at most 8,000 bytes."""
MOST_TEXTS = 2_000
"""Max texts of other processes that are tracked while they stream."""
EARLY = 200
"""Max deltas that are kept before the row of their part comes."""


class Wire(Protocol):
    on_live: Callable[[str], None]

    @property
    def heard_elsewhere(self) -> bool:
        """Whether there are listeners in another process."""
        ...

    def say(self, payload: str) -> None: ...


class Piece(Struct, frozen=True, array_like=True):
    session_id: SessionId
    message_id: MessageId
    part_id: PartId
    field: str
    offset: int
    delta: str


class _Text:
    """A text that streams in another process, as far as it is known here."""

    def __init__(self, part: TextPart | ReasoningPart) -> None:
        self.part = part
        self.length = len(part.text)

    def add(self, piece: Piece) -> str:
        """Add a delta and return its new text; empty if an earlier one is missing: the row will bring it."""
        if piece.offset > self.length or piece.offset + len(piece.delta) <= self.length:
            return ""
        new = piece.delta[self.length - piece.offset :]
        self.part = replace(self.part, text=self.part.text + new)
        self.length += len(new)
        return new


class Relay(Relaying):
    """Sends deltas of texts that stream here, and publishes those of other processes on the bus."""

    def __init__(self, bus: Bus, wire: Wire) -> None:
        super().__init__(0)
        self._bus = bus
        self._wire = wire
        self._gathered: list[Piece] = []
        self._sending: asyncio.TimerHandle | None = None
        self._texts: dict[PartId, _Text] = {}
        self._early: dict[PartId, list[Piece]] = {}
        wire.on_live = self._received

    def push(self, event: Event) -> None:
        if isinstance(event, PartDelta):
            if self._wire.heard_elsewhere and self._bus.is_written_here(event.session_id):
                self._gather(event)
        elif isinstance(event, PartUpdated) and not self._bus.is_written_here(event.session_id):
            self._learn(event)

    # Texts that stream here

    def _gather(self, event: PartDelta) -> None:
        last = self._gathered[-1] if self._gathered else None
        if last and (last.part_id, last.offset + len(last.delta)) == (event.part_id, event.offset):
            self._gathered[-1] = replace(last, delta=last.delta + event.delta)
        else:
            where = event.session_id, event.message_id, event.part_id
            self._gathered.append(Piece(*where, event.field, event.offset, event.delta))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send)

    def _send(self) -> None:
        pieces, self._gathered, self._sending = self._gathered, [], None
        for payload in payloads(pieces):
            self._wire.say(payload)

    # Texts that stream elsewhere

    def _learn(self, event: PartUpdated) -> None:
        part = event.part
        if not isinstance(part, TextPart | ReasoningPart):
            return
        if part.time is None or part.time.end is not None:
            self._texts.pop(part.id, None)
            self._early.pop(part.id, None)
            return
        self._texts[part.id] = _Text(part)
        while len(self._texts) > MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        for piece in self._early.pop(part.id, ()):  # after all listeners have the part
            asyncio.get_running_loop().call_soon(self._publish, piece)

    def _received(self, payload: str) -> None:
        for piece in msgspec.json.decode(payload, type=list[Piece]):
            if piece.part_id in self._texts:
                self._publish(piece)
            elif sum(map(len, self._early.values())) < EARLY:
                self._early.setdefault(piece.part_id, []).append(piece)
            else:
                self._early.clear()  # their rows did not come; those will hold the full text

    def _publish(self, piece: Piece) -> None:
        text = self._texts.get(piece.part_id)
        if text is None or self._bus.is_written_here(piece.session_id):
            return
        offset = text.length
        if new := text.add(piece):
            self._bus.publish(
                PartDelta(
                    session_id=piece.session_id,
                    message_id=piece.message_id,
                    part_id=piece.part_id,
                    field=piece.field,
                    delta=new,
                    offset=offset,
                )
            )

    def amend(self, event: Event) -> Event:
        """Return the row of a streaming text with the deltas that listeners already have.

        A row may be read after deltas that are newer; without this it would take them back.
        """
        if not isinstance(event, PartUpdated) or not isinstance(event.part, TextPart | ReasoningPart):
            return event
        part = event.part
        known = self._texts.get(part.id)
        if known is None or part.time is None or part.time.end is not None or known.length <= len(part.text):
            return event
        return replace(event, part=replace(part, text=known.part.text))

    def growing(self, wanted: Callable[[SessionId], bool]) -> list[Event]:
        """Return the streaming texts of other processes, as far as they are known here."""
        return [
            PartUpdated(session_id=text.part.session_id, part=text.part, time=0)
            for text in self._texts.values()
            if wanted(text.part.session_id)
        ]


def payloads(pieces: list[Piece]) -> list[str]:
    """Encode deltas in as few payloads as possible, none over the limit."""
    found: list[str] = []
    batch: list[Piece] = []
    size = 0
    for piece in _cut(pieces):
        length = len(msgspec.json.encode(piece)) + 1
        if batch and size + length > PAYLOAD:
            found.append(msgspec.json.encode(batch).decode())
            batch, size = [], 0
        batch.append(piece)
        size += length
    return [*found, msgspec.json.encode(batch).decode()] if batch else found


def _cut(pieces: list[Piece]) -> list[Piece]:
    """Split deltas that could exceed a payload: a character takes up to six bytes as JSON."""
    most = PAYLOAD // 7
    return [
        replace(piece, delta=piece.delta[start : start + most], offset=piece.offset + start)
        for piece in pieces
        for start in range(0, len(piece.delta), most)
    ]
