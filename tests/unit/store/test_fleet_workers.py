"""Who lives, as one process knows it, and whose clock counts."""

from pathlib import Path

import pytest

from asyncagents.config.env import Environment
from asyncagents.config.fleet import fleet_config
from asyncagents.domain.id import OwnerId
from asyncagents.errors import ConfigError
from asyncagents.store.postgres.clock import StoreClock
from asyncagents.store.postgres.tree_lock import lock_key
from asyncagents.store.postgres.workers import FleetPeer, Worker, Workers
from asyncagents.testing.clock import FakeClock

HERE = Path("/")
QUIET = FleetPeer(False, 1, ("p",))
ME, OTHER = OwnerId("me"), OwnerId("other")


def workers() -> Workers:
    return Workers(Worker(ME, "worker", ("p",), 10.0), StoreClock(FakeClock()))


@pytest.mark.spec("X-10")
async def test_a_worker_newer_than_the_last_look_is_taken_for_alive() -> None:
    known = workers()
    assert known.alive(ME)
    assert known.alive(OTHER)
    assert known.beat_requested.is_set()  # it is looked for at once
    known.update_living({ME: QUIET, OTHER: QUIET})
    assert known.alive(OTHER)


async def test_a_worker_missing_from_the_list_is_dead_until_it_returns() -> None:
    known = workers()
    died = []
    known.on_death = lambda: died.append(1)
    assert known.alive(OTHER)
    known.update_living({ME: QUIET})
    assert not known.alive(OTHER)
    assert died
    known.update_living({ME: QUIET, OTHER: FleetPeer(True, 1, ("p",))})  # it was only stopped for a while
    assert known.alive(OTHER)
    assert known.listeners == 1
    assert known.peers == 2
    assert known.is_served("p")
    assert known.is_served("")
    assert not known.is_served("q")


def test_the_clock_is_corrected_by_the_time_of_the_database() -> None:
    local = FakeClock()
    clock, now = StoreClock(local), local.now()
    clock.learn(now + 60_010, asked=now, heard=now + 20)
    assert clock.now() == now + 60_000
    clock.learn(now + 60_015, asked=now, heard=now + 30)  # as far as one can tell it is right
    assert clock.now() == now + 60_000


def test_locks_of_trees_are_numbers_that_postgres_takes() -> None:
    keys = {lock_key(f"ses_{n}") for n in range(1000)}
    assert len(keys) == 1000
    assert all(-(2**63) <= key < 2**63 for key in keys)


@pytest.mark.parametrize(
    "variables",
    [
        {"ASYNCAGENTS_STORE": "sqlite:///x"},
        {"ASYNCAGENTS_STORE": "postgresql://h/d", "ASYNCAGENTS_HEARTBEAT_SECONDS": "soon"},
        {"ASYNCAGENTS_STORE": "postgresql://h/d", "ASYNCAGENTS_CONNECTIONS": "1"},
    ],
)
def test_invalid_settings_of_a_fleet_are_refused_by_the_name_of_a_variable(variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="ASYNCAGENTS_"):
        fleet_config(Environment(variables=variables, home=HERE, platform="linux", cwd=HERE))
