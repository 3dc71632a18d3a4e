"""Store and publish a step while it streams; the stream never waits for the disk."""

import asyncio

from msgspec.structs import replace

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.event import Event, PartDelta, PartUpdated
from asyncagents.domain.id import PartId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import StepEnd
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.run import Run
from asyncagents.engine.step.draft import Draft, NewPart
from asyncagents.engine.step.text_buffer import NewText
from asyncagents.store.store import Store

FLUSH_SECONDS = 1.0


class StreamWriter:
    """A part's first row is committed before it is published; after that its deltas are published at once.

    Text is written soon after a part begins or ends, else about once a second, one write at a time.
    """

    def __init__(
        self, *, store: Store, bus: Bus, clock: Clock, group: asyncio.TaskGroup, run: Run, draft: Draft
    ) -> None:
        assert run.claim is not None
        self._store = store
        self._bus = bus
        self._clock = clock
        self._group = group
        self._run = run
        self._claim: Claim = run.claim
        self._draft = draft
        self._published: set[PartId] = set()
        self._parts: dict[PartId, Part] = {}
        self._events: list[Event] = []
        self._timer: asyncio.Handle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._ended = False
        bus.add_draft(self._claim.session_id, self._streaming_events)

    def _streaming_events(self) -> list[Event]:
        """Return the published parts that still stream, as events."""
        return [self._part_updated(part) for part in self._draft.open_parts() if part.id in self._published]

    def add_change(self, change: NewPart | NewText) -> None:
        match change:
            case NewPart(part):
                self._parts[part.id] = part
                self._events.append(self._part_updated(part))
                self._flush_soon()
            case NewText(part_id, text, offset):
                self._publish_delta(self._part_delta(part_id, text, offset))

    def _publish_delta(self, delta: PartDelta) -> None:
        """Publish a delta if its part is published; else queue it until the part is."""
        if delta.part_id in self._published:
            self._bus.publish(delta)
            self._flush_later()
        else:
            self._events.append(delta)

    def _flush_soon(self) -> None:
        if self._ended:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_soon(self._start_write)

    def _flush_later(self) -> None:
        if self._timer is None and self._writing is None and not self._ended:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._start_write)

    def _start_write(self) -> None:
        self._timer = None
        if self._writing is None and (self._parts or self._draft.is_dirty):
            self._writing = self._group.create_task(self._write())

    async def _write(self) -> None:
        parts, events = self.take_unwritten()
        try:
            await self._store.write_parts(self._claim, parts, events)
        except Exception as error:  # noqa: BLE001  raised again by `close`; the stream is interrupted
            self._failure = error
            self._run.interrupt()
            return
        finally:
            self._writing = None
        self._mark_published(parts)
        if self._parts:
            self._flush_soon()
        elif self._draft.is_dirty:
            self._flush_later()

    def _mark_published(self, parts: tuple[Part, ...]) -> None:
        """Mark parts as published and publish the deltas that came during the write."""
        self._published.update(part.id for part in parts)
        waiting, self._events = self._events, []
        for event in waiting:
            if isinstance(event, PartDelta):
                self._publish_delta(event)
            else:
                self._events.append(event)

    def take_unwritten(self) -> tuple[tuple[Part, ...], tuple[Event, ...]]:
        """Return and clear the parts that are not written and the events that are not published yet."""
        parts = {**self._parts, **{part.id: part for part in self._draft.take_unsaved_parts()}}
        events = tuple(self._events)
        self._parts, self._events = {}, []
        return tuple(parts.values()), events

    def complete_step(self, end: StepEnd) -> StepEnd:
        """Add the unwritten parts and unpublished events to the end of the step."""
        parts, events = self.take_unwritten()
        replaced = {part.id for part in end.parts} | {call.part_id for call in end.calls}
        other_parts = tuple(part for part in parts if part.id not in replaced)
        last = tuple(self._part_updated(part) for part in end.parts)
        return replace(end, parts=other_parts + end.parts, events=events + last)

    async def close(self) -> None:
        """Wait for the write under way and begin no other; raise the failure of a write.

        What is left is written with the end of the step.
        """
        self._stop()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        self._ended = True
        self._bus.remove_draft(self._claim.session_id, self._streaming_events)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self) -> None:
        """Stop at once: cancel the write under way and begin no other."""
        self._stop()
        if self._writing is not None:
            self._writing.cancel()

    def _part_updated(self, part: Part) -> PartUpdated:
        return PartUpdated(session_id=self._claim.session_id, part=part, time=self._clock.now())

    def _part_delta(self, part_id: PartId, text: str, offset: int) -> PartDelta:
        return PartDelta(
            session_id=self._claim.session_id,
            message_id=self._draft.message.id,
            part_id=part_id,
            field="text",
            delta=text,
            offset=offset,
        )
