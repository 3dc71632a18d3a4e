"""`kill -9`, for real: two processes share a data directory, and neither of them is allowed to live long."""

import fcntl
import os
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.domain.id import OwnerId
from asyncagents.store.sqlite.owners import FlockOwners
from tests.support.kills.worker_kills import besiege

KILLS = 10


@pytest.mark.spec("X-11")
async def test_nothing_is_lost_or_done_twice_under_repeated_kills_of_workers(tmp_path: Path) -> None:
    broken_off = 0
    for seed in (1, 2, 3):  # on a busy machine it may be that nobody is killed at work
        (folder := tmp_path / str(seed)).mkdir()
        summary = await besiege(folder, kills=KILLS, seed=seed)
        assert summary.kills >= KILLS
        assert summary.counts["prompts"] >= KILLS
        broken_off += summary.counts.get("broken off", 0)
        if broken_off:
            return
    raise AssertionError("nobody was killed at work: this proves nothing")


def test_a_dead_owner_is_found_dead_by_concurrent_checks(tmp_path: Path) -> None:
    """Or the session it left would wait for the next sweep, half a minute later."""
    with closing(FlockOwners(tmp_path, "me")) as owners:
        fd = os.open(tmp_path / "dead.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_SH)  # another process is looking right now
        try:
            assert not owners.alive(OwnerId("dead"))
        finally:
            os.close(fd)
