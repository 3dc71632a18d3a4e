"""Progress that a running call reports: published at intervals, and stored with its result."""

import asyncio
import threading
from typing import Any

from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Failed, Open, Running, render
from asyncagents.domain.conversation.part import ToolRunning
from asyncagents.domain.event import PartUpdated
from asyncagents.domain.port import Clock
from asyncagents.domain.text import whole, whole_in
from asyncagents.engine.event.bus import Bus
from asyncagents.store.body import body

REPORT_MS = 200


class Report:
    """Made on the event loop; may be called from any thread."""

    def __init__(self, call: Call, bus: Bus, clock: Clock) -> None:
        self._call = call
        self._bus = bus
        self._clock = clock
        self._last = 0
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._title = ""
        self._metadata: dict[str, Any] = {}
        self.said: dict[str, Any] = {}
        """The last reported metadata, published or not."""

    def end(self) -> None:
        """Ignore later reports, which would show the call as running."""
        self._over = True

    def __call__(self, metadata: dict[str, Any]) -> None:
        """Publish metadata without storing it."""
        self._on_loop("", metadata)

    def keep(self, title: str | None, metadata: dict[str, Any]) -> None:
        """Publish title and metadata and keep them for the result. Raises if they cannot be stored."""
        body((title, metadata))
        self._title = whole(title) if title else self._title
        self._metadata = {**self._metadata, **whole_in(metadata)}
        self._on_loop(self._title, self._metadata)

    def with_kept(self, result: Completed | Failed) -> Completed | Failed:
        """Add kept title and metadata to a result; the result's own values win."""
        if not (self._title or self._metadata):
            return result
        metadata = {**self._metadata, **result.metadata}
        if isinstance(result, Failed):
            return replace(result, metadata=metadata)
        return replace(result, metadata=metadata, title=result.title or self._title)

    def while_waiting(self, state: Open) -> Open:
        """Add kept title and metadata to the state of an open call, shown until its result comes."""
        metadata = {**self._metadata, **state.metadata}
        return replace(state, title=state.title or self._title, metadata=metadata)

    def _on_loop(self, title: str, metadata: dict[str, Any]) -> None:
        if threading.get_ident() == self._thread:
            self._show(title, metadata)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._show, title, metadata)

    def _show(self, title: str, metadata: dict[str, Any]) -> None:
        now = self._clock.now()
        self.said = metadata
        if self._over or now - self._last < REPORT_MS:
            return
        self._last = now
        part = render(self._call.to(Running(0)))
        assert isinstance(part.state, ToolRunning)
        part = replace(part, state=replace(part.state, title=title or None, metadata=metadata))
        self._bus.publish(PartUpdated(session_id=self._call.session_id, part=part, time=now))
