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
from asyncagents.engine.event.bus import Bus

BATCH_WINDOW_SECONDS = 0.05
"""Batch window: fast enough for readers, and twenty notifications a second per process are cheap."""
MAX_PAYLOAD_BYTES = 7_000
"""A PostgreSQL notification carries at most 8,000 bytes."""
MAX_TEXTS = 2_000
"""Max texts of other processes that are tracked while they stream."""
MAX_EARLY_DELTAS = 200
"""Max deltas that are kept before the row of their part comes."""


class RelayChannel(Protocol):
    on_live: Callable[[str], None]

    @property
    def has_remote_listeners(self) -> bool:
        """Whether there are listeners in another process."""
        ...

    def send_live(self, payload: str) -> None: ...


class RelayedDelta(Struct, frozen=True, array_like=True):
    session_id: SessionId
    message_id: MessageId
    part_id: PartId
    field: str
    offset: int
    delta: str


class _RemoteText:
    """A text that streams in another process, as far as it is known here."""

    def __init__(self, part: TextPart | ReasoningPart) -> None:
        self.part = part
        self.length = len(part.text)

    def add(self, delta: RelayedDelta) -> str:
        """Add a delta and return its new text; empty if an earlier one is missing: the row will bring it."""
        if delta.offset > self.length or delta.offset + len(delta.delta) <= self.length:
            return ""
        new = delta.delta[self.length - delta.offset :]
        self.part = replace(self.part, text=self.part.text + new)
        self.length += len(new)
        return new


class Relay:
    """Sends deltas of texts that stream here, and publishes those of other processes on the bus."""

    def __init__(self, bus: Bus, channel: RelayChannel) -> None:
        self._bus = bus
        self._channel = channel
        self._batch: list[RelayedDelta] = []
        self._send_timer: asyncio.TimerHandle | None = None
        self._texts: dict[PartId, _RemoteText] = {}
        self._early_deltas: dict[PartId, list[RelayedDelta]] = {}
        channel.on_live = self._on_live

    def push(self, event: Event) -> None:
        if isinstance(event, PartDelta):
            if self._channel.has_remote_listeners and self._bus.is_streaming_here(event.session_id):
                self._add_to_batch(event)
        elif isinstance(event, PartUpdated) and not self._bus.is_streaming_here(event.session_id):
            self._track_part(event)

    def close(self) -> None:
        """Do nothing: no reader waits for a relay."""

    # Texts that stream here

    def _add_to_batch(self, event: PartDelta) -> None:
        last = self._batch[-1] if self._batch else None
        if last and (last.part_id, last.offset + len(last.delta)) == (event.part_id, event.offset):
            self._batch[-1] = replace(last, delta=last.delta + event.delta)
        else:
            where = event.session_id, event.message_id, event.part_id
            self._batch.append(RelayedDelta(*where, event.field, event.offset, event.delta))
        if self._send_timer is None:
            self._send_timer = asyncio.get_running_loop().call_later(BATCH_WINDOW_SECONDS, self._send)

    def _send(self) -> None:
        pieces, self._batch, self._send_timer = self._batch, [], None
        for payload in encode_payloads(pieces):
            self._channel.send_live(payload)

    # Texts that stream elsewhere

    def _track_part(self, event: PartUpdated) -> None:
        part = event.part
        if not isinstance(part, TextPart | ReasoningPart):
            return
        if part.time is None or part.time.end is not None:
            self._texts.pop(part.id, None)
            self._early_deltas.pop(part.id, None)
            return
        self._texts[part.id] = _RemoteText(part)
        while len(self._texts) > MAX_TEXTS:
            del self._texts[next(iter(self._texts))]
        for delta in self._early_deltas.pop(part.id, ()):  # after all listeners have the part
            asyncio.get_running_loop().call_soon(self._publish, delta)

    def _on_live(self, payload: str) -> None:
        for delta in msgspec.json.decode(payload, type=list[RelayedDelta]):
            if delta.part_id in self._texts:
                self._publish(delta)
            elif sum(map(len, self._early_deltas.values())) < MAX_EARLY_DELTAS:
                self._early_deltas.setdefault(delta.part_id, []).append(delta)
            else:
                self._early_deltas.clear()  # their rows did not come; those will hold the full text

    def _publish(self, delta: RelayedDelta) -> None:
        text = self._texts.get(delta.part_id)
        if text is None or self._bus.is_streaming_here(delta.session_id):
            return
        offset = text.length
        if new := text.add(delta):
            self._bus.publish(
                PartDelta(
                    session_id=delta.session_id,
                    message_id=delta.message_id,
                    part_id=delta.part_id,
                    field=delta.field,
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

    def streaming_events(self, wanted: Callable[[SessionId], bool]) -> list[Event]:
        """Return the streaming texts of other processes, as far as they are known here."""
        return [
            PartUpdated(session_id=text.part.session_id, part=text.part, time=0)
            for text in self._texts.values()
            if wanted(text.part.session_id)
        ]


def encode_payloads(pieces: list[RelayedDelta]) -> list[str]:
    """Encode deltas in as few payloads as possible, none over the limit."""
    found: list[str] = []
    batch: list[RelayedDelta] = []
    size = 0
    for delta in _split_deltas(pieces):
        length = len(msgspec.json.encode(delta)) + 1
        if batch and size + length > MAX_PAYLOAD_BYTES:
            found.append(msgspec.json.encode(batch).decode())
            batch, size = [], 0
        batch.append(delta)
        size += length
    return [*found, msgspec.json.encode(batch).decode()] if batch else found


def _split_deltas(pieces: list[RelayedDelta]) -> list[RelayedDelta]:
    """Split deltas that could exceed a payload: a character takes up to six bytes as JSON."""
    most = MAX_PAYLOAD_BYTES // 7
    return [
        replace(delta, delta=delta.delta[start : start + most], offset=delta.offset + start)
        for delta in pieces
        for start in range(0, len(delta.delta), most)
    ]
