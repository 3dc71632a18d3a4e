"""The databases that must keep the contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncagents.domain.id import Ids
from asyncagents.store.sqlite.connection import Connection, connect_with
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.store import Store
from asyncagents.store.tx import Database
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.contract.build import Lab


def connect(path: Path) -> Connection:
    """Power cuts are not this suite's matter."""
    return connect_with(path, synchronous="OFF")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ids(clock: FakeClock) -> Ids:
    return Ids(clock, SeededRng(1))


@pytest.fixture(params=["sqlite"])
async def database(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock, ids: Ids
) -> AsyncIterator[Database]:
    match request.param:
        case "sqlite":
            path = tmp_path / "store.db"
            async with open_sqlite(path, clock=clock, rng=SeededRng(2), ids=ids, connect=connect) as sqlite:
                yield sqlite
        case other:
            raise ValueError(f"no database called {other!r}")


@pytest.fixture
def lab(database: Database, clock: FakeClock, ids: Ids) -> Lab:
    return Lab(database, clock, ids)


@pytest.fixture
def store(lab: Lab) -> Store:
    return lab.store
