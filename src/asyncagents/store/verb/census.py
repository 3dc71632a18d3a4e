"""How many there are of everything, at a bounded cost however many that is."""

from typing import get_args

from msgspec import Struct

from asyncagents.domain.pending_tool import PendingStatus
from asyncagents.domain.task import TaskStatus
from asyncagents.store.tx import Tx
from asyncagents.store.verb.read import next_due

MOST = 100_000
MOST_ACTIVE = 10_000
"""Those whose rows are looked at."""


class Census(Struct, frozen=True, kw_only=True):
    """A count that is at its limit is that many, or more."""

    sessions: int
    active: dict[str, int]
    """Of one pool, by state: ready, running."""
    tasks: dict[str, int]
    """Those in the background, by status."""
    pending: dict[str, int]
    """Calls whose result comes from outside, by status."""
    deliveries: dict[str, int]
    """Outgoing webhooks that are owed, or were given up."""
    bytes: int
    late: int
    """By how many ms the oldest that is due is overdue; 0: nothing is."""


async def take(tx: Tx, pool: str) -> Census:
    due = await next_due(tx)
    active = dict.fromkeys(("ready", "running"), 0) | dict(await tx.all("census_active", pool, MOST_ACTIVE))
    return Census(
        sessions=await _count(tx, "census_sessions"),
        active=active,
        tasks={each: await _count(tx, "census_tasks", each, MOST) for each in get_args(TaskStatus)},
        pending={each: await _count(tx, "census_pending", each, MOST) for each in get_args(PendingStatus)},
        deliveries={each: await _count(tx, "census_deliveries", each, MOST) for each in ("owed", "dead")},
        bytes=await _count(tx, "census_bytes"),
        late=max(0, tx.now - due) if due is not None else 0,
    )


async def _count(tx: Tx, statement: str, *params: object) -> int:
    row = await tx.one(statement, *params)
    assert row is not None, "a count is a row"
    return int(row[0])
