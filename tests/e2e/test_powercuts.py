"""Power cuts, on a disk that loses, tears and reorders whatever was not synced."""

from pathlib import Path

import pytest

from tests.support.kills.power_cut import WAITING, cut_often, cut_once
from tests.support.soak import some_of

SLICES = 4
CUTS_A_SLICE = 25
CONTROLS = 20
EVERY_VERB = {
    "create_session",
    "admit",
    "claim",
    "start_step",
    "write_parts",
    "finish_step",
    "advance",
    "finish_call",
    "settle",
    "answer",
    "cancel",
    "park",
    "rest",
}


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("part", some_of(range(SLICES), 1))
def test_no_acknowledgement_is_lost_and_nothing_is_half_done(part: int) -> None:
    tally = cut_often(part * 1_000, CUTS_A_SLICE)
    assert set(tally.outcomes) == {"kept"}, tally.outcomes
    assert tally.outcomes["kept"] >= CUTS_A_SLICE
    assert tally.largest > 20, "no commit had many members"
    assert EVERY_VERB - set(tally.verbs) <= {"settle", "answer", "cancel"}, "the people have become idle"


@pytest.mark.spec("X-11", "P-04", "P-12")
def test_no_acknowledged_result_and_no_owed_delivery_is_lost() -> None:
    tally = cut_often(WAITING, CUTS_A_SLICE)
    assert set(tally.outcomes) == {"kept"}, tally.outcomes
    assert tally.results > 5 * CUTS_A_SLICE, "hardly any result came in"
    assert tally.owed > CUTS_A_SLICE
    assert tally.largest > 10, "no commit had many results"


@pytest.mark.spec("X-11")
def test_without_a_sync_at_every_commit_acknowledgements_are_lost() -> None:
    """The control: what the test above looks for does happen, and it does see it."""
    normal = cut_often(0, CONTROLS, synchronous="NORMAL").outcomes
    assert normal["lost"] > CONTROLS / 5
    assert normal["broken"] == 0
    off = cut_often(0, CONTROLS, synchronous="OFF").outcomes
    assert off["lost"] > CONTROLS / 10
    assert off["broken"] > CONTROLS / 5


def test_a_seed_is_cut_off_at_the_same_place_every_time(tmp_path: Path) -> None:
    for seed in range(3):
        first, second = (cut_once(tmp_path / f"{seed}-{again}", seed) for again in range(2))
        assert first == second
