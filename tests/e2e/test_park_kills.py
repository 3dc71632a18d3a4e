"""`kill -9` around park, settle and resume: agents that wait for results, and processes that send them."""

from pathlib import Path

import pytest

from tests.support.kills.park_kills import besiege

KILLS = 10


@pytest.mark.spec("P-04", "P-05", "P-08", "X-11")
async def test_each_session_goes_on_once_with_acknowledged_results_under_kills(tmp_path: Path) -> None:
    cut: dict[str, int] = {"broken off requests": 0, "cut off sends": 0}
    for seed in (1, 2, 3):  # on a busy machine it may be that nobody is killed at work
        (folder := tmp_path / str(seed)).mkdir()
        summary = await besiege(folder, kills=KILLS, seed=seed)
        assert summary.kills >= KILLS
        assert summary.counts["acknowledged"] > KILLS
        cut = {what: many + summary.counts.get(what, 0) for what, many in cut.items()}
        if all(cut.values()):
            return
    raise AssertionError(f"nobody was killed at work: this proves nothing: {cut}")
