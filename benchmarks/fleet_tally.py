"""What a process says to PostgreSQL: how often it sends each statement, and how long the answers take."""

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
    "INSERT INTO worker": "beat",
    "SELECT id, listens": "who lives",
}


class Times(Struct, frozen=True):
    count: int
    seconds: float


class Tally:
    def __init__(self) -> None:
        self._names = {" ".join(each.text.split()): name for name, each in load_statements().items()}
        self._counted: dict[str, Times] = {}

    def begin(self) -> None:
        """For all connections that this process makes from here on."""
        connect = pool.connect

        async def counted(dsn: str) -> Connection:
            connection = await connect(dsn)
            connection.add_query_logger(self._sent)
            return connection

        pool.connect = counted

    def counted(self) -> dict[str, Times]:
        return dict(self._counted)

    def _sent(self, record: Any) -> None:
        name, before = self._name(record.query), Times(0, 0.0)
        before = self._counted.get(name, before)
        self._counted[name] = Times(before.count + 1, before.seconds + record.elapsed)

    def _name(self, text: str) -> str:
        text = " ".join(line for line in text.split("\n") if not line.lstrip().startswith("--"))
        text = " ".join(text.split())
        if text in self._names:
            return self._names[text]
        return next((name for mark, name in MARKS.items() if text.startswith(mark)), text[:50])
