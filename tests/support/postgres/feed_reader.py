"""Readers of one database: each keeps a mirror of what it was told, and looks that no cursor goes back."""

import json
import random
from collections.abc import Iterable
from typing import Any

import asyncpg
from msgspec import Struct

from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import Event, SessionCreated, SessionDeleted, SessionStatus, SessionUpdated
from asyncagents.domain.feed import cursor_revision
from asyncagents.store.postgres.database import PostgresDatabase
from asyncagents.store.postgres.pool import Connection
from asyncagents.store.store import Store
from tests.simulation.mirror import Mirror
from tests.support.postgres.feed_writer import TITLE
from tests.support.wait import wait_until

ROWS = {
    "sessions": "SELECT id, info FROM session",
    "statuses": "SELECT id, status FROM session",
    "messages": "SELECT id, info FROM message",
    "parts": "SELECT id, body FROM part",
}


class There(Struct, frozen=True):
    """What a database holds."""

    rows: dict[str, dict[str, Any]]
    deleted: set[str]
    newest: int
    """The last revision that anything is of."""

    @property
    def keys(self) -> set[tuple[str, str]]:
        return {(name, key) for name, rows in self.rows.items() for key in rows}


async def what_is_there(dsn: str) -> There:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            rows = {name: dict(await connection.fetch(query)) for name, query in ROWS.items()}
            gone = await connection.fetch("SELECT id, rev FROM tombstone WHERE kind = 'session'")
            newest = await connection.fetchval(
                "SELECT GREATEST((SELECT MAX(rev) FROM session), (SELECT MAX(rev) FROM message),"
                " (SELECT MAX(rev) FROM part), (SELECT MAX(rev) FROM tombstone))"
            )
    finally:
        await connection.close()
    read = {name: {key: json.loads(raw) for key, raw in of.items()} for name, of in rows.items()}
    return There(read, {row[0] for row in gone}, newest)


class Reader:
    """`upto`: it has been told all up to there."""

    def __init__(self) -> None:
        self.upto = 0
        self.pieces = 0
        self.went_back: list[str] = []
        """Where its cursor did."""
        self.disordered: list[str] = []
        """What it was told after something newer of the same row."""
        self._titles: dict[str, int] = {}
        self._mirror = Mirror()
        self._deleted: set[str] = set()

    async def look(self) -> None:
        raise NotImplementedError

    def hear(self, events: Iterable[Event], upto: int) -> None:
        self.pieces += 1
        if upto < self.upto:
            self.went_back.append(f"from {self.upto} to {upto}")
        self.upto = upto
        for event in events:
            match event:
                case SessionCreated(session_id=session_id, info=info):
                    self._mirror.apply(SessionUpdated(session_id=session_id, info=info))
                    self._mirror.apply(SessionStatus(session_id=session_id, status=Idle()))
                case SessionDeleted(session_id=session_id):
                    self._deleted.add(session_id)
                    self._mirror.apply(event)
                case SessionUpdated(session_id=session_id, info=info):
                    self._check_title(session_id, info.title)
                    self._mirror.apply(event)
                case _:
                    self._mirror.apply(event)

    def _check_title(self, session_id: str, title: str) -> None:
        since = int(title.removeprefix(TITLE)) if title.startswith(TITLE) else 0
        if since < self._titles.get(session_id, 0):
            self.disordered.append(f"{session_id} from {self._titles[session_id]} to {since}")
        self._titles[session_id] = since

    def missed(self, there: There) -> list[str]:
        """What it was not told of at all."""
        gone = [f"deleted {each}" for each in there.deleted - self._deleted]
        return sorted(gone + [f"{name} {key}" for name, key in there.keys ^ self._told.keys])

    def outdated(self, there: There) -> list[str]:
        """Of what it was told other things than are there."""
        told = self._told
        return sorted(
            f"{name} {key}"
            for name, key in there.keys & told.keys
            if there.rows[name][key] != told.rows[name][key]
        )

    @property
    def _told(self) -> There:
        return There({name: getattr(self._mirror, name) for name in ROWS}, self._deleted, self.upto)


class Follower(Reader):
    """Asks again and again for what is new, at one of these handles."""

    def __init__(self, databases: list[PostgresDatabase], rng: random.Random) -> None:
        super().__init__()
        self._stores = [Store(each) for each in databases]
        self._rng = rng
        self._cursor: str | None = None

    async def look(self) -> None:
        while await self._step():
            pass

    async def _step(self) -> bool:
        piece = await self._rng.choice(self._stores).feed(self._cursor)
        assert not piece.reset, "nobody has forgotten anything"
        if len(self._stores) > 1 and self._rng.random() < 0.2:
            return True  # it was cut off before it had read this, and comes back with the cursor that it has
        self.hear(piece.events, cursor_revision(piece.cursor))
        self._cursor = piece.cursor
        return piece.more


class Listener(Reader):
    """Hears of commits, those of its own handle and all others, as a server does."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__()
        self._database = database
        database.listen(lambda commit: self.hear(commit.events, commit.upto or self.upto))

    async def look(self) -> None:
        self._database.poll()
        remote = self._database.remote_commits
        await wait_until(lambda: not remote._looking, pause=0.001)  # it tells nobody that it found nothing


class Naive:
    """What ours must not be: it goes on behind the highest revision that it has seen."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen = 0
        self._messages: set[str] = set()

    async def look(self) -> None:
        rows = await self._connection.fetch("SELECT rev, id FROM message WHERE rev > $1", self._seen)
        self._seen = max([self._seen, *(row[0] for row in rows)])
        self._messages |= {row[1] for row in rows}

    def missed(self, there: There) -> list[str]:
        return sorted(f"messages {each}" for each in there.rows["messages"].keys() - self._messages)
