"""Ids: their format, and that they sort by creation whatever the clock does."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.id import Ids
from asyncagents.errors import InvalidInput

NOW = 1_794_770_256_144
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Steps:
    """A clock that shows what it is told, then stands still."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def now(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


class Fixed:
    def __init__(self, value: int = 0) -> None:
        self._value = value

    def below(self, n: int) -> int:
        return self._value % n


@given(st.integers(0, 62**14 - 1))
def test_the_random_part_is_base62_with_14_digits(value: int) -> None:
    digits = Ids(Steps(NOW), Fixed(value)).message()[-14:]
    assert sum(ALPHABET.index(digit) * 62**place for place, digit in enumerate(reversed(digits))) == value


@pytest.mark.spec("S-01", "S-03")
def test_every_kind_has_its_prefix_and_26_characters() -> None:
    ids = Ids(Steps(NOW), Fixed(12345))
    made = {
        "ses": ids.session(),
        "msg": ids.message(),
        "prt": ids.part(),
        "tool": ids.call(),
        "req": ids.request(),
        "evt": ids.event(),
        "per": ids.permission(),
        "que": ids.question(),
    }
    for prefix, value in made.items():
        assert re.fullmatch(rf"{prefix}_[0-9a-f]{{12}}[0-9A-Za-z]{{14}}", value)


def test_an_id_carries_the_time_in_the_recorded_form() -> None:
    assert Ids(Steps(1_794_770_256_144), Fixed()).event().startswith("evt_1e0a4c110001")
    assert Ids(Steps(1_794_770_256_111), Fixed()).session().startswith("ses_e1f5b3f10ffe")


@pytest.mark.spec("S-03")
@given(st.lists(st.integers(NOW, NOW + 10**9), min_size=2))
def test_ids_ascend_when_the_clock_jumps_about(times: list[int]) -> None:
    ids = Ids(Steps(*times), Fixed(7))
    made = [ids.part() for _ in times]
    assert all(a < b for a, b in pairwise(made))


@pytest.mark.spec("S-01")
@given(st.lists(st.integers(NOW, NOW + 10**9), min_size=2))
def test_newer_sessions_sort_first(times: list[int]) -> None:
    ids = Ids(Steps(*times), Fixed(7))
    made = [ids.session() for _ in times]
    assert all(a > b for a, b in pairwise(made))


def test_more_ids_than_a_millisecond_holds_still_ascend() -> None:
    ids = Ids(Steps(NOW), Fixed())
    made = [ids.message() for _ in range(10_000)]
    assert all(a < b for a, b in pairwise(made))


@pytest.mark.spec("X-01")
def test_ids_come_after_one_that_somebody_else_made_a_little_ahead() -> None:
    ahead = Ids(Steps(NOW + 5_000), Fixed(7)).message()
    ids = Ids(Steps(NOW), Fixed())
    ids.reach(ahead)
    assert ids.message() > ahead
    ids.reach(Ids(Steps(NOW - 10**9), Fixed()).message())
    assert ids.message() > ahead


@pytest.mark.spec("X-01")
@pytest.mark.parametrize(
    "given", ["", "msg_", "msg_mine", "msg_00000000000g" + "0" * 14, "msg_" + "0" * 25, "é"]
)
def test_what_is_no_id_is_not_reached_for(given: str) -> None:
    with pytest.raises(InvalidInput, match="is no id"):
        Ids(Steps(NOW), Fixed()).reach(given)


@pytest.mark.spec("X-01")
def test_an_id_of_a_time_to_come_is_refused_and_changes_nothing() -> None:
    ids = Ids(Steps(NOW), Fixed())
    before = ids.message()
    with pytest.raises(InvalidInput, match="time to come"):
        ids.reach(Ids(Steps(NOW + 60_000), Fixed()).message())
    assert int(ids.message()[4:16], 16) == int(before[4:16], 16) + 1


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("given", ["msg_ffffffffffffffffffffffffff", f"msg_{'f' * 11}e{'z' * 14}"])
def test_an_id_that_would_be_above_all_to_come_is_refused_though_its_time_may_be_over(given: str) -> None:
    with pytest.raises(InvalidInput, match="of a time to come"):
        Ids(Steps(NOW), Fixed()).reach(given)
