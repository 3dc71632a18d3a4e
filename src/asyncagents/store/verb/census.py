"""Counts everything in the store, at a bounded cost."""

from typing import get_args

from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.census import Census
from asyncagents.domain.task.task import TaskStatus
from asyncagents.store.tx import Tx
from asyncagents.store.verb.read import next_due

MAX_COUNT = 100_000
MAX_ACTIVE = 10_000
"""A lower limit for sessions, whose rows must be read."""


async def take_census(tx: Tx, pool: str) -> Census:
    due = await next_due(tx)
    active = dict.fromkeys(("ready", "running"), 0) | dict(await tx.all("census_active", pool, MAX_ACTIVE))
    return Census(
        sessions=await _count(tx, "census_sessions"),
        active=active,
        tasks={each: await _count(tx, "census_tasks", each, MAX_COUNT) for each in get_args(TaskStatus)},
        asks=await _count(tx, "census_asks", MAX_COUNT),
        pending={
            each: await _count(tx, "census_pending", each, MAX_COUNT) for each in get_args(PendingStatus)
        },
        deliveries={
            each: await _count(tx, "census_deliveries", each, MAX_COUNT) for each in ("owed", "dead")
        },
        external_prompts=await _count(tx, "census_external_prompts", MAX_COUNT),
        bytes=await _count(tx, "census_bytes"),
        late=max(0, tx.now - due) if due is not None else 0,
    )


async def _count(tx: Tx, statement: str, *params: object) -> int:
    row = await tx.one(statement, *params)
    assert row is not None, "a count is a row"
    return int(row[0])
