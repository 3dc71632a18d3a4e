"""Wait until sessions rest or wait for something outside, and tell whether they work."""

import asyncio
from collections.abc import Callable

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.status import Busy, Retry, Status, WaitingAsync
from asyncagents.domain.event import SessionDeleted, SessionStatus
from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.subscribe import subscribe_events
from asyncagents.engine.runtime.abort import POLL_SECONDS
from asyncagents.errors import NotFound
from asyncagents.store.store import Store


class SessionWaiter:
    def __init__(
        self,
        *,
        store: Store,
        bus: Bus,
        clock: Clock,
        dispatcher: Dispatcher,
        alive: Callable[[OwnerId], bool],
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._dispatcher = dispatcher
        self._is_alive = alive

    async def wait(self, session_id: SessionId) -> Status:
        """Wait until a session is idle or waits for something outside. Raises `NotFound` if it is deleted."""
        async with subscribe_events(self._bus, self._store, session_id) as events:
            status = await self._store.status(session_id)
            while isinstance(status, Busy | Retry) or self._is_expiring(status):
                event = await anext(events)
                if isinstance(event, SessionDeleted):
                    raise NotFound("session", session_id)
                status = event.status if isinstance(event, SessionStatus) else status
        return status

    def _is_expiring(self, status: Status) -> bool:
        """Whether the wait is overdue and this process's sweep is about to expire it."""
        if not isinstance(status, WaitingAsync) or status.timeout is None:
            return False
        return status.timeout <= self._clock.now() and self._dispatcher.serves

    async def wait_tree(self, root_id: SessionId) -> dict[SessionId, Status]:
        """Wait until no session of a tree works; return the statuses of those that wait for something."""
        while await self.at_work(root_id):  # noqa: ASYNC110  no event reports the park on an ask
            await asyncio.sleep(POLL_SECONDS)
        return await self._store.statuses(root_id)

    async def at_work(self, root_id: SessionId) -> bool:
        return bool(await self._store.working_sessions(root_id))

    async def is_running(self, session_id: SessionId) -> bool:
        control = await self._store.control(session_id)
        return control.state == "running" and self._is_alive(control.owner or OwnerId(""))
