"""Progress that a running call reports: published at intervals, and stored with its result."""

import asyncio
import threading
from typing import Any

from msgspec.structs import replace

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Call, Completed, Failed, Open, Running, render
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.part import ToolRunning
from asyncagents.domain.event import PartUpdated
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.engine.event.bus import Bus

REPORT_INTERVAL_MS = 200


class ProgressReporter:
    """Made on the event loop; may be called from any thread."""

    def __init__(self, call: Call, bus: Bus, clock: Clock) -> None:
        self._call = call
        self._bus = bus
        self._clock = clock
        self._last = 0
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._title = ""
        self._metadata: dict[str, Any] = {}
        self.last_metadata: dict[str, Any] = {}
        """The last reported metadata, published or not."""

    def end(self) -> None:
        """Ignore later reports, which would show the call as running."""
        self._ended = True

    def __call__(self, metadata: dict[str, Any]) -> None:
        """Publish metadata without storing it."""
        self._show_on_loop("", metadata)

    def keep(self, title: str | None, metadata: dict[str, Any]) -> None:
        """Publish title and metadata and keep them for the result. Raises if they cannot be stored."""
        encode_body((title, metadata))
        self._title = replace_surrogates(title) if title else self._title
        self._metadata = {**self._metadata, **replace_surrogates_in(metadata)}
        self._show_on_loop(self._title, self._metadata)

    def add_to_result(self, result: Completed | Failed) -> Completed | Failed:
        """Add kept title and metadata to a result; the result's own values win."""
        if not (self._title or self._metadata):
            return result
        metadata = {**self._metadata, **result.metadata}
        if isinstance(result, Failed):
            return replace(result, metadata=metadata)
        return replace(result, metadata=metadata, title=result.title or self._title)

    def add_to_state(self, state: Open) -> Open:
        """Add kept title and metadata to the state of an open call, shown until its result comes."""
        metadata = {**self._metadata, **state.metadata}
        return replace(state, title=state.title or self._title, metadata=metadata)

    def _show_on_loop(self, title: str, metadata: dict[str, Any]) -> None:
        if threading.get_ident() == self._thread:
            self._show(title, metadata)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._show, title, metadata)

    def _show(self, title: str, metadata: dict[str, Any]) -> None:
        now = self._clock.now()
        self.last_metadata = metadata
        if self._ended or now - self._last < REPORT_INTERVAL_MS:
            return
        self._last = now
        part = render(self._call.with_state(Running(0)))
        assert isinstance(part.state, ToolRunning)
        part = replace(part, state=replace(part.state, title=title or None, metadata=metadata))
        self._bus.publish(PartUpdated(session_id=self._call.session_id, part=part, time=now))
