"""Abort a session tree and wait until no process runs any of it."""

import asyncio
from collections.abc import Callable

from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.domain.session_state import Scope
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.errors import NotFound
from asyncagents.store.store import Store

POLL_SECONDS = 0.05
"""Poll interval when no events come: the listener fell behind, or the runtime closes."""


class Aborter:
    def __init__(
        self, *, store: Store, bus: Bus, dispatcher: Dispatcher, alive: Callable[[OwnerId], bool]
    ) -> None:
        self._store = store
        self._bus = bus
        self._dispatcher = dispatcher
        self._is_alive = alive

    async def abort(
        self, session_id: SessionId, *, seconds: float = 5.0, scope: Scope = "tree", key: str | None = None
    ) -> bool:
        """Abort a session. Return False if a run still stops after `seconds`; the cancel is committed."""
        return await self.wait_until_stopped(
            await self._store.cancel(session_id, scope=scope, key=key), seconds
        )

    async def wait_until_stopped(self, tree: tuple[SessionId, ...], seconds: float) -> bool:
        """Wait until no process runs any of the sessions. Return False if one still runs after `seconds`."""
        with self._bus.subscribe() as subscription:
            events = aiter(subscription)
            try:
                async with asyncio.timeout(seconds):
                    for each in tree:
                        while not await self._has_stopped(each):
                            if await anext(events, None) is None:
                                await asyncio.sleep(POLL_SECONDS)
            except TimeoutError:
                return False
        return True

    async def _has_stopped(self, session_id: SessionId) -> bool:
        try:
            control, covered = await self._store.cancel_status(session_id)
        except NotFound:
            return True
        if not covered or self._dispatcher.serves:
            return not covered
        return control.state != "running" or not self._is_alive(control.owner or OwnerId(""))

    def is_owner_alive(self, owner: OwnerId | None) -> bool:
        return owner is not None and self._is_alive(owner)

    def serves_pool(self, pool: str) -> bool:
        """Whether this process runs the sessions of a pool."""
        return self._dispatcher.serves and pool in self._dispatcher.pools
