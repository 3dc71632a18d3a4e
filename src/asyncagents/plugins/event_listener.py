"""Passes events to a plugin through its own queue, which drops the oldest if the plugin is too slow."""

import logging
from collections.abc import Awaitable, Callable

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.event import Event
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.queue import BoundedQueue
from asyncagents.errors import AsyncAgentsError
from asyncagents.plugins.guarded_call import RaisedError, ReturnedValue
from asyncagents.plugins.loaded_plugin import LoadedPlugin

_log = logging.getLogger(__name__)
QUEUE_SIZE = 1024
MOST_SESSIONS = 10_000
"""Max sessions whose directory is cached."""


class EventRing(BoundedQueue[Event]):
    """A queue that never lags: it keeps the newest events."""

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        super().__init__(size)
        self.lost = 0

    def push(self, event: Event) -> None:
        if len(self._items) == self._size:
            self._items.popleft()
            self.lost += 1
        self._items.append(event)
        self._ready.set()


class PluginListener:
    """Passes the events of one directory's sessions to one plugin."""

    def __init__(
        self, plugin: LoadedPlugin, directory: str, directory_of: Callable[[SessionId], Awaitable[str]]
    ) -> None:
        self._plugin = plugin
        self._directory = directory
        self._directory_of = directory_of
        self._known: BoundedDict[SessionId, bool] = BoundedDict(MOST_SESSIONS)

    async def listen(self, bus: Bus, ring: EventRing | None = None) -> None:
        """Pass events until the bus closes or the hook is off. Never raises: the runtime's group runs it."""
        try:
            await self._listen(bus, ring or EventRing())
        except Exception:  # noqa: BLE001  as above
            _log.exception("plugin=%s action=listen failed; it gets no more events", self._plugin.name)

    async def _listen(self, bus: Bus, ring: EventRing) -> None:
        health = self._plugin.health("event")
        with bus.attach(ring):
            async for event in ring:
                if ring.lost:
                    health.record_lost_events(ring.lost)
                    ring.lost = 0
                if await self._is_here(event):
                    await self._call_hook(event)
                if health.off:
                    return

    async def _call_hook(self, event: Event) -> None:
        health = self._plugin.health("event")
        match await self._plugin.call_hook("event", event):
            case ReturnedValue():
                health.record_end()
            case RaisedError(error):
                health.record_error(error)
            case _:
                pass

    async def _is_here(self, event: Event) -> bool:
        if event.session_id is None:
            return True
        if event.session_id not in self._known:
            try:
                here = await self._directory_of(event.session_id) == self._directory
            except AsyncAgentsError:  # the session or the database is gone
                return False
            self._known[event.session_id] = here
        return self._known[event.session_id]
