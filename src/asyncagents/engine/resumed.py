"""What a process did since its start: whoever listened to the one before it missed that until he came back.

OpenCode's streams begin anew with every connection, and its clients read nothing again when theirs was cut.
"""

from collections.abc import AsyncGenerator
from typing import TypeGuard

from asyncagents.domain.codec import Unreadable
from asyncagents.domain.event import Event, SessionCreated
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock
from asyncagents.errors import Damaged, NotFound
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

MISSED_MS = 60_000
"""So long after the start listeners come back; who comes later never listened before."""
MOST = 500
"""Sessions that are told of."""


class Resumed:
    """Of the trees that are older than the process, taken up or spoken to since; nobody missed the others."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursor: str | None = None
        self._started = 0
        self._room = MOST
        self._told: dict[SessionId, bool] = {}
        self._born: set[SessionId] = set()
        """Since the start, in trees that are no older."""
        self._touched = False
        """Whether anything else changed: else there is nothing to look for."""

    async def look(self) -> None:
        """Before anything is taken up."""
        self._cursor, self._started = await self._store.cursor(), self._clock.now()

    def committed(self, commit: Commit) -> None:
        """From the first commit on: one that comes while the cursor is read may be after it."""
        if self._touched or self._over:
            self._born.clear()
            return
        for event in commit.events:
            if self._cursor is not None and self._begins_a_tree(event):
                self._born.add(event.session_id)
            elif event.session_id not in self._born:
                self._touched = True

    def _begins_a_tree(self, event: Event) -> TypeGuard[SessionCreated]:
        """Or goes on with one that began since the start."""
        if not isinstance(event, SessionCreated):
            return False
        return event.info.parent_id is None or event.info.parent_id in self._born

    @property
    def _over(self) -> bool:
        return self._cursor is not None and self._clock.now() >= self._started + MISSED_MS

    async def missed(self) -> AsyncGenerator[list[Event], None]:
        """The state of what changed since the start, for somebody who begins to listen now."""
        if self._cursor is None or self._over or not self._touched:
            return
        cursor, more = self._cursor, True
        while more:
            piece = await self._store.feed(cursor)
            if piece.reset:  # it is too long ago: who reads everything afresh is not helped by a part
                return
            yield [
                event
                for event in piece.events
                if event.session_id is not None and await self._is_told(event.session_id)
            ]
            cursor, more = piece.cursor, piece.more

    async def _is_told(self, session_id: SessionId) -> bool:
        if session_id not in self._told:
            self._told[session_id] = is_told = self._room > 0 and await self._is_older(session_id)
            self._room -= is_told
        return self._told[session_id]

    async def _is_older(self, session_id: SessionId) -> bool:
        """Not if it was deleted, or cannot be read, which is its trouble alone."""
        try:
            root_id = (await self._store.control(session_id)).root_id
            return (await self._store.session(root_id)).time.created < self._started
        except (NotFound, Damaged, Unreadable):
            return False
