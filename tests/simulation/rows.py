"""Who is who, read from the rows while a world is played: nothing of it passes through the loop."""

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.domain.id import SessionId
from tests.simulation.answer_checker import find_held


class Known(Struct, frozen=True):
    """A session; `name` is what its prompts call it."""

    id: SessionId
    name: str
    root_id: SessionId
    depth: int


_TITLE = re.compile(r"(t\d+x\d+) ")


class Rows:
    """Children are known by their titles, which begin with their names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._by_id: dict[str, Known] = {}
        self._by_name: dict[str, Known] = {}

    def child(self, session_id: str) -> Known | None:
        if session_id not in self._by_id:
            self._learn()
        return self._by_id.get(session_id)

    def named(self, name: str) -> Known | None:
        if name not in self._by_name:
            self._learn()
        return self._by_name.get(name)

    def there(self, ids: Iterable[str]) -> set[str]:
        """Those that have not been deleted."""
        return {row[0] for row in self._query("SELECT id FROM session")} & set(ids)

    def summarised(self, owner: str) -> list[str]:
        """The sessions of which a process has a summary written."""
        rows = self._query("SELECT id, owner FROM session WHERE state = 'running' AND compacting <> 0")
        return [row[0] for row in rows if row[1] == owner]

    def cleared(self) -> list[str]:
        """Children whose tasks were cleared."""
        query = "SELECT id FROM session WHERE depth > 0 AND id NOT IN (SELECT id FROM task) ORDER BY id"
        return [row[0] for row in self._query(query)]

    def launching(self) -> list[tuple[str, str]]:
        """Sessions of which a call that launches somebody is under way, with their roots."""
        query = """SELECT session.id, session.root_id FROM call JOIN session ON session.id = call.session_id
                   WHERE call.state = 'running' AND call.tool IN ('task', 'async_task', 'asyncagents_task')"""
        return [(row[0], row[1]) for row in self._query(query)]

    def stuck(self, crowd: int) -> set[str]:
        """Sessions that wait for a place while fewer work than may."""
        query = """SELECT id FROM session AS waiting WHERE state = 'ready' AND depth > 0
                     AND (SELECT COUNT(*) FROM session WHERE root_id = waiting.root_id
                          AND state = 'running' AND depth > 0) < {}"""
        return {row[0] for row in self._query(query.format(crowd))}

    def asleep(self) -> list[str]:
        """Sessions that stopped in the middle of a turn, with nothing that could go on without them."""
        query = """SELECT id FROM session
                   WHERE state = 'idle' AND in_turn AND backoff IS NULL AND NOT EXISTS (
                     SELECT 1 FROM call WHERE call.session_id = session.id AND call.state <> 'settled')"""
        return [row[0] for row in self._query(query)]

    def read(self) -> list[tuple[str]]:
        """Sessions that somebody is about to read or to wait for."""
        query = """SELECT session.id FROM call JOIN session ON session.id = call.body ->> '$.input.task_id'
                   WHERE call.state = 'running' AND session.depth > 0
                     AND call.tool IN ('asyncagents_output', 'async_task_result')"""
        return [(row[0],) for row in self._query(query)]

    def _learn(self) -> None:
        query = "SELECT id, root_id, depth, info ->> 'title' FROM session WHERE depth > 0"
        for session_id, root_id, depth, title in self._query(query):
            if session_id not in self._by_id and (found := _TITLE.match(title)):
                known = Known(SessionId(session_id), found[1], SessionId(root_id), depth)
                self._by_id[session_id] = self._by_name[known.name] = known

    def held(self) -> list[str]:
        """Find sessions that hold their callers for the outside alone."""
        return find_held(self._query)

    def _query(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        if self._db is None:
            self._db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None)
        return self._db.execute(query, given).fetchall()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
