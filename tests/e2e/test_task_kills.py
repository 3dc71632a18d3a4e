"""Thirty tasks from one turn, over HTTP, in a process that is killed five times while they run."""

from pathlib import Path

import pytest

from tests.support.kills.task_kills import JOBS, KILLS, fan_out


@pytest.mark.spec("T-15", "X-11")
async def test_each_task_ends_once_with_one_notice_under_repeated_kills(
    tmp_path: Path,
) -> None:
    summary = await fan_out(tmp_path, seed=1)
    assert summary.kills == KILLS
    assert summary.counts["tasks"] == JOBS
    assert summary.counts["broken off requests"] > 0, "nobody was killed at work: this proves nothing"
