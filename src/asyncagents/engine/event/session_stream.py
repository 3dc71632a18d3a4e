"""Follow the events of a session or its tree, with cursors: all events before a cursor were yielded."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartUpdated,
    PermissionAsked,
    QuestionAsked,
    SessionCreated,
    SessionDeleted,
    SessionStatus,
    SessionUpdated,
    TodoUpdated,
)
from asyncagents.domain.feed import cursor_revision
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.bus import QUEUE_SIZE, Bus
from asyncagents.engine.event.queue import ReplayQueue
from asyncagents.errors import Closed, NotFound
from asyncagents.store.store import Store

CURSOR_INTERVAL_SECONDS = 15.0
"""After so long without an event a cursor is yielded alone, to keep a later catch-up short."""
MAX_KNOWN_SESSIONS = 10_000
"""Max cached sessions; beyond it those of other trees are dropped."""


class EventBatch(Struct, frozen=True):
    """A batch of events; resume from `cursor` after handling it. `reset`: `events` is the full state."""

    events: tuple[Event, ...]
    cursor: str
    reset: bool = False


class SessionTree:
    """The sessions that are followed: one, or all of its tree."""

    def __init__(self, store: Store, session_id: SessionId, *, tree: bool) -> None:
        self.store = store
        self.session_id = session_id
        self._tree = tree
        self._root_id = session_id
        self._known: dict[SessionId, bool] = {session_id: True}

    @property
    def subscription_key(self) -> SessionId | None:
        """The session to subscribe to; None (all) for a tree, which may grow."""
        return None if self._tree else self.session_id

    async def load(self) -> None:
        """Read the sessions of the tree. Raises `NotFound`."""
        self._root_id = (await self.store.control(self.session_id)).root_id
        ahead = [self._root_id] if self._tree else []
        while ahead:
            session_id = ahead.pop()
            self._remember(session_id, True)
            ahead += [each.id for each in await self.store.children(session_id)]

    def is_foreign(self, session_id: SessionId | None) -> bool:
        """Whether a session is known to be in another tree; False while that is unknown."""
        return session_id is None or not self._known.get(session_id, self._tree)

    def may_contain(self, session_id: SessionId) -> bool:
        """Whether a session is, or may be, of the tree: a child may have come during a catch-up."""
        return not self.is_foreign(session_id)

    def contains(self, session_id: SessionId) -> bool:
        return self._known.get(session_id, False)

    async def filter_events(self, events: list[Event] | tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events of sessions in the tree."""
        return tuple([event for event in events if await self._concerns_tree(event)])

    async def _concerns_tree(self, event: Event) -> bool:
        session_id = event.session_id
        if session_id is None or self.is_foreign(session_id):
            return False
        if session_id not in self._known:
            self._remember(session_id, await self._is_member(session_id, event))
        return self._known[session_id]

    def _remember(self, session_id: SessionId, ours: bool) -> None:
        if len(self._known) >= MAX_KNOWN_SESSIONS:
            self._known = {known: True for known, is_ours in self._known.items() if is_ours}
        self._known[session_id] = ours

    async def _is_member(self, session_id: SessionId, event: Event) -> bool:
        """Whether a session is in the tree; a deleted one is found by its parent."""
        info = event.info if isinstance(event, SessionCreated | SessionDeleted) else None
        if info is not None and info.parent_id is not None and self.contains(info.parent_id):
            return True
        try:
            return (await self.store.control(session_id)).root_id == self._root_id
        except NotFound:
            return False

    async def full_state(self) -> tuple[Event, ...]:
        """Return the full state as events, for a client that cannot catch up."""
        await self.load()
        ours = [session_id for session_id, is_ours in self._known.items() if is_ours]
        events = [event for session_id in ours for event in await self._session_state(session_id)]
        asked = [each.call for each in await self.store.asks(self._root_id)]
        for call in asked:
            if call.open and call.open.ask and self.contains(call.session_id):
                events.append(PermissionAsked(request=call.open.ask))
            elif call.open and call.open.question and self.contains(call.session_id):
                events.append(QuestionAsked(request=call.open.question))
        return tuple(events)

    async def _session_state(self, session_id: SessionId) -> list[Event]:
        info = await self.store.session(session_id)
        events: list[Event] = [SessionUpdated(session_id=session_id, info=info)]
        for entry in await self.store.messages(session_id, limit=1_000_000):
            events.append(MessageUpdated(session_id=session_id, info=entry.info))
            at = entry.info.time.created
            events += [PartUpdated(session_id=session_id, part=part, time=at) for part in entry.parts]
        events.append(TodoUpdated(session_id=session_id, todos=await self.store.todos(session_id)))
        events.append(SessionStatus(session_id=session_id, status=await self.store.status(session_id)))
        return events


class _Queue(ReplayQueue[tuple[int, Event]]):
    """The queue of one stream, with the events of its sessions."""

    def __init__(self, bus: Bus, tree: SessionTree) -> None:
        super().__init__(QUEUE_SIZE)
        self._bus = bus
        self._tree = tree

    def push(self, event: Event) -> None:
        at = self._bus.latest_revision
        if not self._tree.is_foreign(event.session_id) and not self.is_replayed(at, event):
            self.add((at, event))

    def take(self) -> tuple[list[Event], int]:
        """Return all queued events, and the revision up to which they are complete."""
        return [event for _, event in self.take_all()], self._bus.complete_revision

    async def wait_for_events(self) -> bool:
        """Wait for events. Returns False if none came for a while."""
        try:
            async with asyncio.timeout(CURSOR_INTERVAL_SECONDS):
                await self.wait()
        except TimeoutError:
            return False
        return True


async def follow_sessions(
    tree: SessionTree, bus: Bus, *, after: str | None = None
) -> AsyncGenerator[EventBatch, None]:
    """Yield batches of events without end. A slow reader may miss states, never the last of them.

    The first batch is a cursor, the next the parts that are streaming, as they are. Raises `NotFound` before
    that, and `Closed` when the runtime ends.
    """
    await tree.load()
    cursor = after
    while True:
        queue = _Queue(bus, tree)
        with bus.attach(queue, tree.subscription_key):
            if cursor is None:
                cursor = await tree.store.cursor()
                yield EventBatch((), cursor)
            else:
                async with aclosing(_catch_up(tree, cursor)) as pieces:
                    async for batch in pieces:
                        yield batch
                        cursor = batch.cursor
            growing, silent = bus.streaming_events(tree.may_contain), False
            queue.skip_replayed(cursor_revision(cursor), growing)
            while not (queue.lagging or queue.closed):  # the queue of a lagging subscription is incomplete
                events, upto = queue.take()
                tree_events = await tree.filter_events([*events, *growing])
                cursor, growing = advance_cursor(cursor, upto), []
                if tree_events or silent:
                    yield EventBatch(tree_events, cursor)
                silent = not await queue.wait_for_events()
            if queue.closed:
                raise Closed("the runtime was closed")


async def _catch_up(tree: SessionTree, cursor: str) -> AsyncGenerator[EventBatch, None]:
    more = True
    while more:
        piece = await tree.store.feed(cursor)
        if piece.reset:
            yield EventBatch(await tree.full_state(), piece.cursor, reset=True)
        else:
            yield EventBatch(await tree.filter_events(piece.events), piece.cursor)
        cursor, more = piece.cursor, piece.more


def advance_cursor(cursor: str, upto: int) -> str:
    """Return the cursor at revision `upto`; it never goes back."""
    epoch, zero, rev = cursor.split("-")
    return f"{epoch}-{zero}-{max(int(rev), upto)}"
