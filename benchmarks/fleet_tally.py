"""What a process says to PostgreSQL: how often it sends each statement, and how long the answers take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from asyncagents.store.postgres import pool
from asyncagents.store.postgres.pool import Connection
from asyncagents.store.postgres.statement import load_statements

MARKS = {
    "BEGIN ISOLATION": "BEGIN to read",
    "BEGIN; SELECT pg_advisory": "BEGIN with its tree's lock",
    "BEGIN": "BEGIN",
    "COMMIT": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "SELECT pg_advisory": "one more lock",
    "SELECT pg_current_xact_id": "its own number",
    "SELECT root_id FROM session": "look-up of a tree",
    "SELECT pg_notify($1, payload)": "NOTIFY of texts",
    "SELECT pg_notify($1, '')": "NOTIFY of news",
    "SELECT id, pool, (SELECT COUNT": "PgQueuer: places of jobs",
    "WITH input AS": "PgQueuer: enqueue",
    "WITH available": "PgQueuer: dequeue",
    "WITH job_status": "PgQueuer: done",
    "UPDATE pgqueuer SET heartbeat": "PgQueuer: heartbeat",
    "SELECT COUNT(*) AS queued_work": "PgQueuer: is there more",
    "SELECT execute_after": "PgQueuer: when is there more",
    "INSERT INTO worker": "beat",
    "SELECT id, listens": "who lives",
}


class Times(Struct, frozen=True):
    count: int
    seconds: float


NONE = Times(0, 0.0)


class Tally:
    """Of all connections that this process makes while it counts."""

    def __init__(self) -> None:
        self._names = {_plain(each.text): name for name, each in load_statements().items()}
        self._counted: dict[str, Times] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        connect = pool.connect

        async def counted(dsn: str) -> Connection:
            connection = await connect(dsn)
            connection.add_query_logger(self._sent)
            return connection

        pool.connect = counted
        try:
            yield
        finally:
            pool.connect = connect

    def counted(self) -> dict[str, Times]:
        """So far."""
        return dict(self._counted)

    def _sent(self, record: Any) -> None:
        name = self._name(_plain(record.query))
        before = self._counted.get(name, NONE)
        self._counted[name] = Times(before.count + 1, before.seconds + record.elapsed)

    def _name(self, text: str) -> str:
        if text in self._names:
            return self._names[text]
        return next((name for mark, name in MARKS.items() if text.startswith(mark)), text[:60])


def since(before: dict[str, Times], after: dict[str, Times]) -> dict[str, Times]:
    found = {}
    for name, late in after.items():
        early = before.get(name, NONE)
        if late.count > early.count:
            found[name] = Times(late.count - early.count, late.seconds - early.seconds)
    return found


def _plain(text: str) -> str:
    """In one line, without comments."""
    return " ".join(" ".join(line.partition("--")[0] for line in text.splitlines()).split())
