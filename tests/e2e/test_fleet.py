"""Many processes, one database: whatever happens to them, to it or to what lies between, nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.fleet_siege import restarts, stress
from tests.e2e.fleet_turns import HEARTBEAT, fairness, handover, partition
from tests.postgres_server import Server

Record = Callable[[str, object], None]
SLACK = 0.6
"""Seconds that a busy machine may add."""


@pytest.mark.spec("X-10", "X-11")
async def test_each_signal_is_consumed_once_however_often_workers_are_killed_or_stopped(
    tmp_path: Path, postgres_server: Server, record_property: Record
) -> None:
    summary = await stress(tmp_path, postgres_server, signals=400, sessions=40, seconds=10)
    for what in ("prompts", "results", "kills", "stopped for too long", "stale"):
        record_property(f"fleet: {what}", summary.counts.get(what, 0))
    assert summary.counts["prompts"] + summary.counts["results"] >= 400
    assert summary.counts["kills"] > 0
    assert summary.counts["stopped for too long"] > 0


@pytest.mark.spec("X-10", "X-11")
async def test_who_wakes_up_after_others_took_over_writes_nothing_any_more(
    tmp_path: Path, postgres_server: Server
) -> None:
    done = await handover(tmp_path, postgres_server)
    assert done.stale >= 1
    assert done.doubted
    assert done.finished_by == 3


@pytest.mark.spec("X-10", "X-11")
async def test_what_was_acknowledged_outlives_a_database_that_dies_again_and_again(
    tmp_path: Path, record_property: Record
) -> None:
    summary = await restarts(tmp_path, restarts=4)
    record_property("fleet: restarts of the database", summary.counts["restarts"])
    assert summary.counts["prompts"] > 4 * 20


@pytest.mark.spec("X-10", "X-11")
async def test_who_is_cut_off_stops_what_it_does_before_others_go_on_with_it(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await partition(tmp_path, postgres_server)
    assert seen.stopped <= HEARTBEAT / 2 + SLACK
    assert seen.stopped < seen.taken_over


@pytest.mark.spec("X-10")
async def test_a_project_with_one_session_does_not_wait_for_one_with_hundreds(
    tmp_path: Path, postgres_server: Server
) -> None:
    seen = await fairness(tmp_path, postgres_server, crowd=300, concurrency=4)
    assert seen.left > 100, "the crowd was gone: this proves nothing"
    assert seen.ahead <= 8
