"""Replays events of the first minute after a restart to clients that reconnect without a cursor.

OpenCode's streams begin anew with every connection, and its clients do not read again after a disconnect.
"""

from collections.abc import AsyncGenerator
from typing import TypeGuard

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.event import Event, SessionCreated
from asyncagents.domain.id import SessionId
from asyncagents.errors import Damaged, NotFound
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

REPLAY_MS = 60_000
"""How long after the start a new stream counts as a reconnect."""
MAX_SESSIONS = 500
"""Max sessions that are replayed."""


class RestartReplay:
    """Replays changes in session trees that are older than the process; clients saw newer ones begin."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursor: str | None = None
        self._started = 0
        self._sessions_left = MAX_SESSIONS
        self._replayed_sessions: dict[SessionId, bool] = {}
        self._new_sessions: set[SessionId] = set()
        """Sessions created since the start, in trees that began since then."""
        self._has_changes = False
        """Whether an older tree may have changed; if not, there is nothing to replay."""

    async def read_cursor(self) -> None:
        """Read the feed's cursor, before any session is run."""
        self._cursor, self._started = await self._store.cursor(), self._clock.now()

    def on_commit(self, commit: Commit) -> None:
        """Note changes, from the first commit on: one during the cursor's read may be after the cursor."""
        if self._has_changes or self._is_over:
            self._new_sessions.clear()
            return
        for event in commit.events:
            if self._cursor is not None and self._starts_tree(event):
                self._new_sessions.add(event.session_id)
            elif event.session_id not in self._new_sessions:
                self._has_changes = True

    def _starts_tree(self, event: Event) -> TypeGuard[SessionCreated]:
        """Whether an event creates a root session, or a child in a tree that began since the start."""
        if not isinstance(event, SessionCreated):
            return False
        return event.info.parent_id is None or event.info.parent_id in self._new_sessions

    @property
    def _is_over(self) -> bool:
        return self._cursor is not None and self._clock.now() >= self._started + REPLAY_MS

    async def missed_events(self) -> AsyncGenerator[list[Event], None]:
        """Yield the changes since the start, for a stream that begins now."""
        if self._cursor is None or self._is_over or not self._has_changes:
            return
        cursor, more = self._cursor, True
        while more:
            piece = await self._store.feed(cursor)
            if piece.reset:  # too old for the feed: a partial replay would not help
                return
            yield [
                event
                for event in piece.events
                if event.session_id is not None and await self._is_replayed(event.session_id)
            ]
            cursor, more = piece.cursor, piece.more

    async def _is_replayed(self, session_id: SessionId) -> bool:
        if session_id not in self._replayed_sessions:
            self._replayed_sessions[session_id] = is_told = (
                self._sessions_left > 0 and await self._is_older_tree(session_id)
            )
            self._sessions_left -= is_told
        return self._replayed_sessions[session_id]

    async def _is_older_tree(self, session_id: SessionId) -> bool:
        """Whether the session's tree is older than the process; False if it is deleted or unreadable."""
        try:
            root_id = (await self._store.control(session_id)).root_id
            return (await self._store.session(root_id)).time.created < self._started
        except (NotFound, Damaged, Unreadable):
            return False
