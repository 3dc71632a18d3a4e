"""Many processes, one database: whatever happens to them, to it or to what lies between, nothing is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fleet.drain import DRAIN, drain
from tests.support.fleet.drain import HEARTBEAT as FOUND_DEAD
from tests.support.fleet.siege import restarts, stress
from tests.support.fleet.turn import (
    HEARTBEAT,
    burst,
    fairness,
    fill_places,
    handover,
    interlude,
    partition,
    shares,
)
from tests.support.postgres.server import Server, open_server

Record = Callable[[str, object], None]
SIGNALS = 200
SLACK = 0.8
"""Seconds that a busy machine may add."""


@pytest.fixture(scope="module")
def durable_server() -> Iterator[Server]:
    """One that may be killed, and keeps what it acknowledged."""
    with open_server(durable=True) as server:
        yield server


@pytest.mark.spec("X-10", "X-11")
async def test_each_signal_is_consumed_once_when_workers_are_killed_or_stopped(
    tmp_path: Path, postgres_server: Server, record_property: Record
) -> None:
    summary = await stress(tmp_path, postgres_server, signals=SIGNALS, sessions=25, seconds=5)
    for what in ("prompts", "results", "kills", "stopped for too long", "stale"):
        record_property(f"fleet: {what}", summary.counts.get(what, 0))
    assert summary.counts["prompts"] + summary.counts["results"] >= SIGNALS
    assert summary.counts["kills"] > 0
    assert summary.counts["stopped for too long"] > 0


@pytest.mark.spec("X-10", "X-11")
async def test_a_worker_that_resumes_after_a_takeover_writes_nothing(
    tmp_path: Path, postgres_server: Server
) -> None:
    done = await handover(tmp_path, postgres_server)
    assert done.stale >= 1
    assert done.doubted
    assert done.finished_by == 3


@pytest.mark.spec("X-10", "X-11")
async def test_acknowledged_signals_survive_repeated_database_restarts(
    tmp_path: Path, durable_server: Server, record_property: Record
) -> None:
    summary = await restarts(tmp_path, durable_server, restarts=4)
    record_property("fleet: restarts of the database", summary.counts["restarts"])
    assert summary.counts["prompts"] + summary.counts["results"] >= 4 * 40


@pytest.mark.spec("X-10", "X-11")
async def test_a_worker_cut_off_from_the_database_stops_before_another_takes_over(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await partition(tmp_path, postgres_server)
    assert seen.stopped <= HEARTBEAT / 2 + SLACK
    assert seen.stopped < seen.taken_over


@pytest.mark.spec("X-10")
async def test_a_draining_worker_finishes_turns_and_hands_over_long_ones_at_once(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await drain(tmp_path / "desk", postgres_server)
    assert seen.code == 0
    assert seen.asked == {"short": 1, "long": 2, "next": 1}, "what was finished was not asked again"
    assert seen.answers == {"short": "a short answer", "long": "a long answer", "next": "the next answer"}
    assert seen.next_answered < FOUND_DEAD / 2, "others go on meanwhile"
    assert seen.ended >= DRAIN
    assert seen.went_on < FOUND_DEAD / 2, "nobody waits until it counts as dead"


@pytest.mark.spec("X-10")
async def test_a_worker_with_a_long_turn_takes_new_work_after_a_database_restart(
    tmp_path: Path, durable_server: Server, record_property: Record
) -> None:
    record_property("fleet: seconds after a restart", await interlude(tmp_path, durable_server))


@pytest.mark.spec("X-10")
async def test_a_project_with_one_session_does_not_wait_for_one_with_hundreds(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await fairness(tmp_path, postgres_server, crowd=300, concurrency=4)
    assert seen.ahead <= 10
    assert seen.left > 100, "the crowd was gone: this proves nothing"


@pytest.mark.spec("X-10")
async def test_a_project_with_few_sessions_that_never_rest_leaves_others_their_share(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await shares(tmp_path, postgres_server, crowd=24, steady=6, turns=60)
    assert seen.crowd >= 20, seen


@pytest.mark.spec("X-10")
async def test_a_session_with_many_prompts_takes_one_place(
    tmp_path: Path, postgres_server: Server, record_property: Record
) -> None:
    record_property("fleet: seconds beside a burst", await burst(tmp_path, postgres_server))


@pytest.mark.spec("X-10")
async def test_turns_of_a_dead_worker_go_on_although_all_places_are_taken(
    tmp_path: Path, postgres_server: Server, record_property: Record
) -> None:
    record_property("fleet: seconds without a place", await fill_places(tmp_path, postgres_server))
