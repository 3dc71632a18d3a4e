"""Group commit against raw SQLite: the same statements, single-threaded, fifty verbs to a commit."""

import asyncio
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import NewSession, Session, SessionTime, Tokens
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect
from asyncagents.store.sqlite.database import SqliteDatabase, open_sqlite
from asyncagents.store.sqlite.statement import load_statements
from asyncagents.store.store import Store
from asyncagents.store.tx import Tx
from benchmarks.report import Figure

SESSIONS = 200
VERBS = 6_000
PER_COMMIT = 50
CLOCK, RNG = SystemClock(), SystemRng()

Statements = list[tuple[str, tuple[Any, ...]]]


class Recorder:
    """Notes what is executed between a savepoint and its release."""

    def __init__(self, real: Connection, verbs: list[Statements]) -> None:
        self._real = real
        self._verbs = verbs

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        if sql.startswith("SAVEPOINT"):
            self._verbs.append([])
        elif self._verbs and not sql.startswith(("RELEASE", "ROLLBACK", "BEGIN", "COMMIT", "PRAGMA")):
            self._verbs[-1].append((sql, params))
        return self._real.execute(sql, params)


async def _prompts(store: Store, ids: Ids, sessions: list[Session], count: int) -> None:
    async def produce(session: Session) -> None:
        for _ in range(count // len(sessions)):
            await store.admit(_prompt(ids, session))

    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(produce(session))


def _prompt(ids: Ids, session: Session) -> Admit:
    message = UserMessage(
        id=ids.message(),
        session_id=session.id,
        time=MessageTime(created=1),
        agent="build",
        model=ModelRef(provider_id="none", model_id="none"),
    )
    part = TextPart(id=ids.part(), session_id=session.id, message_id=message.id, text="x" * 500)
    return Admit(message=message, parts=(part,), key=message.id)


async def _sessions(store: Store, ids: Ids) -> list[Session]:
    made = []
    for _ in range(SESSIONS):
        info = Session(
            id=ids.session(),
            slug="bench",
            project_id="p",
            directory="/project",
            title="t",
            version="0",
            time=SessionTime(created=1, updated=1),
            tokens=Tokens.zero(),
        )
        made.append(await store.create_session(NewSession(info=info, pool="local")))
    return made


async def _record(directory: Path) -> tuple[list[Statements], float]:
    """Real prompts through the store: what they execute, and how long they take."""
    ids, verbs = Ids(CLOCK, RNG), list[Statements]()
    path = directory / "record.db"
    async with open_sqlite(path, clock=CLOCK, rng=RNG) as database:
        sessions = await _sessions(Store(database), ids)
    for name in ("real", "raw", "group"):
        shutil.copy(path, directory / f"{name}.db")

    def recording(where: Path) -> Connection:
        return Recorder(connect(where), verbs)

    async with open_sqlite(path, clock=CLOCK, rng=RNG, connect=recording) as database:
        await _prompts(Store(database), ids, sessions, VERBS)
    async with open_sqlite(directory / "real.db", clock=CLOCK, rng=RNG) as database:
        start = time.perf_counter()
        await _prompts(Store(database), ids, sessions, VERBS)
        return [verb for verb in verbs if verb], time.perf_counter() - start


def _raw(path: Path, verbs: list[Statements]) -> float:
    connection = connect(path)
    start = time.perf_counter()
    for at in range(0, len(verbs), PER_COMMIT):
        connection.execute("BEGIN IMMEDIATE")
        for verb in verbs[at : at + PER_COMMIT]:
            for sql, params in verb:
                connection.execute(sql, params).fetchone()
        connection.execute("COMMIT")
    spent = time.perf_counter() - start
    connection.close()
    return spent


async def _group(path: Path, verbs: list[Statements]) -> float:
    names = {sql: name for name, sql in load_statements().items()}

    async def replay(tx: Tx, verb: Statements) -> None:
        for sql, params in verb:
            await tx.one(names[sql], *params)

    async def produce(database: SqliteDatabase, share: list[Statements]) -> None:
        for verb in share:
            await database.write(partial(replay, verb=verb))

    async with open_sqlite(path, clock=CLOCK, rng=RNG) as database:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(SESSIONS):
                group.create_task(produce(database, verbs[number::SESSIONS]))
        return time.perf_counter() - start


async def measure(directory: Path) -> list[Figure]:
    verbs, real = await _record(directory)
    raw = min(_raw(_copy(directory, "raw", n), verbs) for n in range(3))
    grouped = min([await _group(_copy(directory, "group", n), verbs) for n in range(3)])
    return [
        Figure("raw SQLite, 50 verbs a commit", len(verbs) / raw, "verbs/s"),
        Figure("group commit, 200 producers, the same statements", len(verbs) / grouped, "verbs/s"),
        Figure("… as a share of raw", 100 * raw / grouped, "%", "≥ 50"),
        Figure("prompts admitted through the store, all logic included", VERBS / real, "1/s"),
    ]


def _copy(directory: Path, name: str, number: int) -> Path:
    return Path(shutil.copy(directory / f"{name}.db", directory / f"{name}{number}.db"))
