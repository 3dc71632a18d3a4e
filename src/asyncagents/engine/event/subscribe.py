"""Subscribe to live events; a slow listener catches up from the store."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TypeAlias

from asyncagents.domain.event import Event
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.bus import Bus, Subscription
from asyncagents.errors import Closed
from asyncagents.store.store import Store

EventSubscription: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Event]]


@asynccontextmanager
async def subscribe_events(
    bus: Bus, store: Store, session_id: SessionId | None
) -> AsyncIterator[AsyncIterator[Event]]:
    """Yield the events from here on, of one session or all."""
    cursor = await store.cursor()  # before it subscribes: everything it may miss comes after
    with bus.subscribe(session_id) as subscription:
        happening = _read_events(bus, store, subscription, cursor, session_id=session_id)
        async with aclosing(happening) as events:
            yield events


async def _read_events(
    bus: Bus, store: Store, subscription: Subscription, cursor: str, *, session_id: SessionId | None
) -> AsyncGenerator[Event, None]:
    """Yield live events; a listener that falls behind catches up from the store, from its last cursor."""
    async for event in subscription:
        yield event
    closed = subscription.closed
    while not closed:  # it fell behind: subscribe again, and catch up from the store
        with bus.subscribe(session_id) as again:
            more = True
            while more:
                piece = await store.feed(cursor)
                piece = await store.feed() if piece.reset else piece
                cursor, more = piece.cursor, piece.more
                for event in piece.events:
                    if session_id in (None, event.session_id):
                        yield event
            async for event in again:
                yield event
            closed = again.closed
    raise Closed("the runtime was closed")
