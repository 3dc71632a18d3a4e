"""`asyncagents run` is killed at random moments; what it had accepted is answered once by whoever goes on."""

from pathlib import Path

import pytest

from tests.support.kills.run_kills import kill_runs

KILLS = 10


@pytest.mark.spec("X-11")
async def test_each_accepted_prompt_is_answered_once_under_repeated_kills_of_run(tmp_path: Path) -> None:
    summary = await kill_runs(KILLS, 2, tmp_path)
    assert summary.kills >= KILLS
    assert summary.counts["answered"] > 0
    assert summary.counts["cut off"] > 0, "nobody was killed at work: this proves nothing"
