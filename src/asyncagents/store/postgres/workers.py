"""Who lives: each process beats in the database, and who has not for too long, by its clock, is dead."""

import asyncio
import os
import socket
from collections.abc import Callable

from msgspec import Struct

from asyncagents.domain.id import OwnerId
from asyncagents.store.postgres.clock import StoreClock
from asyncagents.store.postgres.pool import Connection

BEATS = 5
"""In the time after which one counts as dead."""


class Worker(Struct, frozen=True):
    """What a process says of itself."""

    id: OwnerId
    kind: str
    pools: tuple[str, ...]
    patience: float


class Fellow(Struct, frozen=True):
    """What others know of it."""

    listens: bool
    capacity: int
    pools: tuple[str, ...]


class Workers:
    """An owner that nobody has heard of is dead once it was looked for after it was asked about."""

    def __init__(self, me: Worker, clock: StoreClock) -> None:
        self._me = me
        self._clock = clock
        self._living: dict[str, Fellow] = {me.id: Fellow(False, 0, me.pools)}
        self._looks = 0
        self._asked: dict[OwnerId, int] = {}
        self.listeners = 0
        """Others who would like to hear texts as they grow."""
        self.fellows = 1
        """How many run sessions, with this one."""
        self.wanted = asyncio.Event()
        """Somebody asked about one who is not known."""
        self.runs: Callable[[], int] = lambda: 0
        self.capacity: Callable[[], int] = lambda: 0
        self.listens: Callable[[], bool] = lambda: False
        self.died: Callable[[], None] = lambda: None
        """Called when one is found dead: what it did is to be taken up."""

    @property
    def me(self) -> OwnerId:
        return self._me.id

    def alive(self, owner: OwnerId) -> bool:
        if owner in self._living:
            self._asked.pop(owner, None)
            return True
        asked = self._asked.setdefault(owner, self._looks)
        if asked < self._looks:
            return False
        self.wanted.set()
        return True

    def close(self) -> None:
        """What is to be said at the end is said by whoever beats."""

    async def beat(self, connection: Connection, *, timeout: float) -> None:
        """And look who else does."""
        self.wanted.clear()
        me, asked = self._me, self._clock.local()
        told = await connection.fetchval(
            "INSERT INTO worker (id, host, pid, kind, pools, runs, capacity, listens, patience) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, make_interval(secs => $9)) "
            "ON CONFLICT (id) DO UPDATE SET beat = clock_timestamp(), runs = excluded.runs, "
            "capacity = excluded.capacity, listens = excluded.listens "
            "RETURNING (extract(epoch FROM beat) * 1000)::bigint",
            *(me.id, socket.gethostname(), os.getpid(), me.kind, list(me.pools)),
            *(self.runs(), self.capacity(), self.listens(), me.patience),
            timeout=timeout,
        )
        self._clock.learn(told, asked=asked, heard=self._clock.local())
        living = "SELECT id, listens, capacity, pools FROM worker WHERE beat > clock_timestamp() - patience"
        rows = await connection.fetch(living, timeout=timeout)
        self.looked({row[0]: Fellow(row[1], row[2], tuple(row[3])) for row in rows})

    def looked(self, found: dict[str, Fellow]) -> None:
        """These live."""
        self._looks += 1
        before, self._living = self._living, found
        self.listeners = sum(each.listens for who, each in found.items() if who != self.me)
        self.fellows = max(1, sum(each.capacity > 0 for each in found.values()))
        if before.keys() - found.keys() or any(asked < self._looks for asked in self._asked.values()):
            self.died()

    def serve(self, pool: str) -> bool:
        """Whether anybody does; of whichever, if it has no name."""
        return any(each.capacity > 0 and (not pool or pool in each.pools) for each in self._living.values())

    async def leave(self, connection: Connection, *, timeout: float) -> None:
        """And clear away those who are long dead."""
        await connection.execute("DELETE FROM worker WHERE id = $1", self.me, timeout=timeout)
        buried = "DELETE FROM worker WHERE beat < clock_timestamp() - interval '1 day'"
        await connection.execute(buried, timeout=timeout)
