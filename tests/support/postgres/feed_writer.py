"""Writers of one database, with transactions of all lengths; run as a process, or in the test's own."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.json import decode, encode

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.conversation.session import SessionChanges
from asyncagents.domain.id import Ids, SessionId
from asyncagents.errors import Conflict
from asyncagents.store.postgres.database import PostgresDatabase, open_postgres
from asyncagents.store.row import require_session
from asyncagents.store.tx import Database, Tx, Verb
from asyncagents.store.verb.admit import admit_input
from asyncagents.store.verb.session_update import update_session
from asyncagents.testing.clock import FakeClock
from tests.support.store.lab import Lab

T = TypeVar("T")
PAUSES = (0, 0, 0, 0.002, 0.01, 0.03, 0.1)
"""Between the last statement of a transaction and its commit, at most so many seconds."""
READY = b"ready\n"
TITLE = "as of "


class Orders(Struct, frozen=True):
    dsn: str
    seed: int
    writers: int
    writes: int
    """Of each writer."""
    shared: tuple[SessionId, ...]
    """Sessions in which all write."""


class Wrote(Struct):
    """What was acknowledged."""

    sessions: set[str] = set()
    messages: dict[str, str] = {}
    """Their sessions."""
    deleted: set[str] = set()
    refused: int = 0
    """Transactions that wrote and were then undone."""


class SlowDatabase:
    """Commits come later than the writes, and so in another order than the revisions were taken in."""

    def __init__(self, database: PostgresDatabase, rng: random.Random) -> None:
        self._database = database
        self._rng = rng
        self.read, self.listen = database.read, database.listen

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        pause = self._rng.choice(PAUSES) * self._rng.random()

        async def slow(tx: Tx) -> T:
            value = await verb(tx)
            await asyncio.sleep(pause)
            return value

        return await self._database.write(slow)


class Writer:
    """Each has sessions of its own, which it may delete."""

    def __init__(self, lab: Lab, rng: random.Random, shared: tuple[SessionId, ...], wrote: Wrote) -> None:
        self._lab = lab
        self._rng = rng
        self._shared = shared
        self._own: list[SessionId] = []
        self._wrote = wrote

    async def write(self, many: int) -> None:
        for _ in range(many):
            acts = [self._create, self._prompt, self._retitle, self._delete, self._change_its_mind]
            await self._rng.choices(acts, [15, 50, 20, 8, 7])[0]()

    async def _create(self) -> None:
        parent = self._rng.choice([None, *self._own[-1:]])
        self._own.append(session_id := await self._lab.session(parent=parent))
        self._wrote.sessions.add(session_id)

    async def _prompt(self) -> None:
        session_id = self._rng.choice([*self._shared, *self._own])
        self._wrote.messages[await self._lab.prompt(session_id)] = session_id

    async def _retitle(self) -> None:
        """A title says when it was given: whoever hears an older one later was told in the wrong order."""
        session_id = self._rng.choice(self._shared)

        async def retitle(tx: Tx) -> None:
            await require_session(tx, session_id)
            await update_session(tx, session_id, SessionChanges(title=f"{TITLE}{await tx.rev()}"))

        await self._lab.database.write(retitle)

    async def _delete(self) -> None:
        if self._own:
            gone = await self._lab.store.delete_session(self._rng.choice(self._own))
            self._own = [each for each in self._own if each not in gone]
            self._wrote.deleted |= set(gone)

    async def _change_its_mind(self) -> None:
        new = self._lab.input(self._rng.choice(self._shared))

        async def undone(tx: Tx) -> None:
            await admit_input(tx, new)
            raise Conflict("never mind")

        try:
            await self._lab.database.write(undone)
        except Conflict:
            self._wrote.refused += 1


@asynccontextmanager
async def laboratory(dsn: str, rng: random.Random) -> AsyncIterator[tuple[PostgresDatabase, Lab]]:
    """A handle of one's own, and slow hands for it."""
    clock = FakeClock(SystemClock().now())
    ids = Ids(clock, SystemRng())
    async with open_postgres(dsn, clock=clock, rng=SystemRng(), ids=ids) as database:
        slow: Database = SlowDatabase(database, rng)
        yield database, Lab(slow, clock, ids)


async def obey(orders: Orders, lab: Lab) -> Wrote:
    wrote = Wrote(set(), {}, set())
    async with asyncio.TaskGroup() as group:
        for number in range(orders.writers):
            rng = random.Random(f"{orders.seed}:{number}")
            group.create_task(Writer(lab, rng, orders.shared, wrote).write(orders.writes))
    return wrote


async def main() -> None:
    """Orders come by stdin, and then word to begin; what was written goes to stdout."""
    orders = decode(sys.stdin.buffer.readline(), type=Orders)
    async with laboratory(orders.dsn, random.Random(orders.seed)) as (_, lab):
        await lab.store.cursor()
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        await asyncio.to_thread(sys.stdin.buffer.readline)
        sys.stdout.buffer.write(encode(await obey(orders, lab)))


if __name__ == "__main__":
    asyncio.run(main())
