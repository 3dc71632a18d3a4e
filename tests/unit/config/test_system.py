"""The clock of the machine: one that was never set is refused at the start."""

from pathlib import Path

import pytest

from asyncagents import ConfigError, ScriptedModel, open_runtime
from asyncagents.config.clock import SystemClock

IN_1965 = -158_000_000 * 10**9


async def test_a_clock_before_1970_is_refused_when_a_data_directory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: IN_1965)
    with pytest.raises(ConfigError, match=r"clock is at 1964-12-29 .* UTC: set it, and start again"):
        async with open_runtime(tmp_path, model=ScriptedModel({})):
            pass


def test_a_clock_that_is_set_to_before_1970_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: IN_1965)
    assert SystemClock().now() == 0
