"""The databases that must keep the contract."""

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from asyncagents.app.backend import PolledDatabase
from asyncagents.domain.id import Ids
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.sqlite.connection import Connection, connect_with
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.store import Store
from asyncagents.store.tx import Database
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.postgres.database import Server, an_empty_database
from tests.support.store.lab import Lab
from tests.support.store.template import copy_database

MANY = 8
"""A test with so many cases is asked every sixth of them in a database, unless examples are drawn."""
Another: TypeAlias = Callable[[], AbstractAsyncContextManager[PolledDatabase]]


def connect(path: Path) -> Connection:
    """Power cuts are not this suite's matter."""
    return connect_with(path, synchronous="OFF")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("ASYNCAGENTS_EXAMPLES") == "drawn":
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for each in items:
        if isinstance(each, pytest.Function) and "postgres" in each.name and "another" in each.fixturenames:
            cases[each.nodeid.partition("[")[0]].append(each)
    crowds = [sorted(each, key=lambda item: item.nodeid) for each in cases.values() if len(each) >= MANY]
    left_out = {each for crowd in crowds for number, each in enumerate(crowd) if number % 6}
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda each: each.nodeid))
        items[:] = [each for each in items if each not in left_out]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ids(clock: FakeClock) -> Ids:
    return Ids(clock, SeededRng(1))


@pytest.fixture(params=["sqlite", "postgres"])
async def another(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock, ids: Ids
) -> AsyncIterator[Another]:
    """Opens the database of this test, as each process does that uses it."""
    match request.param:
        case "postgres":
            server: Server = request.getfixturevalue("postgres_server")
            async with an_empty_database(server) as dsn:
                yield lambda: open_postgres(dsn, clock=clock, rng=SeededRng(2), ids=ids, size=4)
        case "sqlite":
            path = tmp_path / "store.db"
            copy_database(path)
            yield lambda: open_sqlite(path, clock=clock, rng=SeededRng(2), ids=ids, connect=connect)
        case other:
            raise ValueError(f"no database called {other!r}")


@pytest.fixture
async def database(another: Another) -> AsyncIterator[Database]:
    async with another() as opened:
        yield opened


@pytest.fixture
def lab(database: Database, clock: FakeClock, ids: Ids) -> Lab:
    return Lab(database, clock, ids)


@pytest.fixture
def store(lab: Lab) -> Store:
    return lab.store
