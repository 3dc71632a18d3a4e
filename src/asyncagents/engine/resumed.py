"""What a process took up at its start: whoever listened to the one before it missed how that went on.

OpenCode's streams begin anew with every connection, and its clients read nothing again when theirs was cut.
"""

from collections.abc import AsyncGenerator, Callable

from asyncagents.domain.codec import Unreadable
from asyncagents.domain.event import Event
from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.domain.port import Clock
from asyncagents.errors import Damaged, NotFound
from asyncagents.store.store import Store

MISSED_MS = 60_000
"""So long after the start listeners come back; who comes later never listened before."""
MOST = 500
"""Sessions that are told of."""


class Resumed:
    """Of the trees where something was under way, and no others: what else happens is told when it does."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursor: str | None = None
        self._until = 0
        self._taken_up: tuple[SessionId, ...] = ()
        self._root_ids: dict[SessionId, SessionId | None] = {}

    async def look(self, pool: str, is_left: Callable[[OwnerId | None], bool]) -> None:
        """Before anything is taken up. `is_left`: whether nobody works on what this owner began."""
        cursor = await self._store.cursor()
        active = await self._store.active(pool, limit=MOST)
        left = (each for each in active if each.state == "ready" or is_left(each.owner))
        self._taken_up = tuple([each.session_id for each in left])
        self._cursor, self._until = cursor, self._clock.now() + MISSED_MS

    async def missed(self) -> AsyncGenerator[list[Event], None]:
        """The state of what changed since the start, for somebody who begins to listen now."""
        if not self._taken_up or self._cursor is None or self._clock.now() >= self._until:
            return
        root_ids = {await self._root_of(each) for each in self._taken_up} - {None}
        cursor, more = self._cursor, True
        while more:
            piece = await self._store.feed(cursor)
            if piece.reset:  # it is too long ago: who reads everything afresh is not helped by a part
                return
            yield [
                event
                for event in piece.events
                if event.session_id is not None and await self._root_of(event.session_id) in root_ids
            ]
            cursor, more = piece.cursor, piece.more

    async def _root_of(self, session_id: SessionId) -> SessionId | None:
        """None: it was deleted, or cannot be read, which is its trouble alone."""
        if session_id not in self._root_ids:
            try:
                self._root_ids[session_id] = (await self._store.control(session_id)).root_id
            except (NotFound, Damaged, Unreadable):
                self._root_ids[session_id] = None
        return self._root_ids[session_id]
