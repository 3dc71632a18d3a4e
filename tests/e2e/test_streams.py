"""Listeners that stall and listeners that are cut off, beside one that hears all; the soak does more."""

from pathlib import Path

import pytest

from tests.support.load import event_stream
from tests.support.load.board_stream import cut_board_streams, read_beside_stalled

EVENTS = 18_000
GROWTH = 12.0
"""Megabytes, with what an allocator keeps: a third of what all the events would take."""


@pytest.mark.spec("H-06")
async def test_stalled_listeners_cost_no_memory_and_a_live_one_misses_nothing(tmp_path: Path) -> None:
    held = await read_beside_stalled(tmp_path, stalled=30, events=EVENTS, together=1_500)
    assert held.events >= EVENTS
    assert held.after - held.before < GROWTH, held
    assert held.kept < 1, held


@pytest.mark.spec("H-06", "H-09")
async def test_a_board_listener_that_is_cut_off_ends_with_a_fresh_snapshot(tmp_path: Path) -> None:
    cut = await cut_board_streams(tmp_path, cuts=24, restarts=2, seed=7)
    assert cut.resumed > 5
    assert cut.heard > cut.cuts
    assert cut.tasks > 0


@pytest.mark.spec("X-01")
async def test_an_opencode_listener_that_is_cut_off_ends_with_the_current_state(
    tmp_path: Path,
) -> None:
    cut = await event_stream.cut_event_streams(tmp_path, cuts=12, restarts=2, seed=3)
    assert cut.heard > cut.cuts
    assert cut.parts > cut.sessions
