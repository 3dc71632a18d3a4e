"""A recording is opened as users do, by the clock of today: all that was due in the meantime is over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncagents import open_runtime
from asyncagents.app.backend import POOL
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import DelegationConfig
from asyncagents.config.fleet import Fleet
from asyncagents.engine.runtime.runtime import Runtime
from tests.recorded.cast import Cast, Record, Terms
from tests.recorded.compare import lost_messages
from tests.recorded.copy import Copy, PostgresCopy
from tests.recorded.going_on import until
from tests.recorded.inventory import take_inventory
from tests.recorded.record import SCENES


@asynccontextmanager
async def opened(copy: Copy) -> AsyncIterator[Runtime]:
    """Open a copy by the library; a database as one of the workers that share it."""
    cast = Cast(SCENES, Terms(hang=False), SystemClock(), Record([], []))
    fleet = Fleet(store=copy.dsn, pool=POOL, pools=(POOL,)) if isinstance(copy, PostgresCopy) else None
    async with open_runtime(
        copy.directory,
        model=cast.model,
        tools=cast.tools(),
        policy=_ask_to_touch,
        delegation=DelegationConfig(tools="both"),
        fleet=fleet,
    ) as runtime:
        yield runtime


def _ask_to_touch(ask: Any, context: Any) -> Any:
    return "ask" if ask.permission == "touch" else "allow"


@pytest.mark.spec("X-10", "X-11")
@pytest.mark.timeout(240)
async def test_only_asks_without_a_deadline_are_open_years_later(copy: Copy) -> None:
    recorded = copy.recording.inventory
    async with opened(copy) as runtime:
        await until(lambda: _is_quiet(runtime))
        asks = await runtime.asks()
        asking = {each.id for ask in asks for each in ask.lineage}
        statuses = await runtime.statuses()
    async with copy.open(SystemClock()) as database:
        now = await take_inventory(database, await copy.rows())

    assert {ask.call.ask_id for ask in asks} == {ask[0] for ask in recorded["asks"] if ask[2] is None}
    assert statuses.keys() <= asking
    for session_id, was in recorded["sessions"].items():
        assert lost_messages(was, now["sessions"][session_id]) == []


async def _is_quiet(runtime: Runtime) -> bool:
    """Whether nothing is at work, and nothing that is due is left."""
    census = await runtime.census()
    return not any(census.active.values()) and not census.late
