"""Tells which processes are alive: each sends heartbeats to the database; without them it counts as dead."""

import asyncio
import os
import socket
from collections.abc import Callable

from msgspec import Struct

from asyncagents.domain.id import OwnerId
from asyncagents.store.postgres.clock import StoreClock
from asyncagents.store.postgres.pool import Connection

BEATS = 5
"""Heartbeats within the time after which a process counts as dead."""


class Worker(Struct, frozen=True):
    """How a process registers itself."""

    id: OwnerId
    kind: str
    pools: tuple[str, ...]
    patience: float


class FleetPeer(Struct, frozen=True):
    """What this process knows of a living process."""

    listens: bool
    capacity: int
    pools: tuple[str, ...]


class Workers:
    """An unknown owner counts as dead once a read of the table after the first question did not find it."""

    def __init__(self, worker: Worker, clock: StoreClock) -> None:
        self._worker = worker
        self._clock = clock
        self._living: dict[str, FleetPeer] = {worker.id: FleetPeer(False, 0, worker.pools)}
        self._looks = 0
        self._asked: dict[OwnerId, int] = {}
        self.listeners = 0
        """How many other processes want live text deltas."""
        self.peers = 1
        """How many processes run sessions, with this one."""
        self.beat_requested = asyncio.Event()
        """Set when an unknown owner was asked about: beat now."""
        self.runs: Callable[[], int] = lambda: 0
        self.capacity: Callable[[], int] = lambda: 0
        self.listens: Callable[[], bool] = lambda: False
        self.on_death: Callable[[], None] = lambda: None
        """Called when a process is found dead: its sessions are to be claimed."""

    @property
    def me(self) -> OwnerId:
        return self._worker.id

    def alive(self, owner: OwnerId) -> bool:
        if owner in self._living:
            self._asked.pop(owner, None)
            return True
        asked = self._asked.setdefault(owner, self._looks)
        if asked < self._looks:
            return False
        self.beat_requested.set()
        return True

    def close(self) -> None:
        """Do nothing: the control connection signs off."""

    async def beat(self, connection: Connection, *, timeout: float) -> None:
        """Send a heartbeat, and read which processes are alive."""
        self.beat_requested.clear()
        worker, asked = self._worker, self._clock.local()
        database_time = await connection.fetchval(
            "INSERT INTO worker (id, host, pid, kind, pools, runs, capacity, listens, patience) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, make_interval(secs => $9)) "
            "ON CONFLICT (id) DO UPDATE SET beat = clock_timestamp(), runs = excluded.runs, "
            "capacity = excluded.capacity, listens = excluded.listens "
            "RETURNING (extract(epoch FROM beat) * 1000)::bigint",
            *(worker.id, socket.gethostname(), os.getpid(), worker.kind, list(worker.pools)),
            *(self.runs(), self.capacity(), self.listens(), worker.patience),
            timeout=timeout,
        )
        self._clock.learn(database_time, asked=asked, heard=self._clock.local())
        living = "SELECT id, listens, capacity, pools FROM worker WHERE beat > clock_timestamp() - patience"
        rows = await connection.fetch(living, timeout=timeout)
        self.update_living({row[0]: FleetPeer(row[1], row[2], tuple(row[3])) for row in rows})

    def update_living(self, found: dict[str, FleetPeer]) -> None:
        """Replace the set of living processes, and report deaths."""
        self._looks += 1
        before, self._living = self._living, found
        self.listeners = sum(each.listens for worker_id, each in found.items() if worker_id != self.me)
        self.peers = max(1, sum(each.capacity > 0 for each in found.values()))
        if before.keys() - found.keys() or any(asked < self._looks for asked in self._asked.values()):
            self.on_death()

    def is_served(self, pool: str) -> bool:
        """Whether a living process serves a pool; an empty name stands for any pool."""
        return any(each.capacity > 0 and (not pool or pool in each.pools) for each in self._living.values())

    async def leave(self, connection: Connection, *, timeout: float) -> None:
        """Sign off, and delete the rows of processes that died long ago."""
        await connection.execute("DELETE FROM worker WHERE id = $1", self.me, timeout=timeout)
        buried = "DELETE FROM worker WHERE beat < clock_timestamp() - interval '1 day'"
        await connection.execute(buried, timeout=timeout)
