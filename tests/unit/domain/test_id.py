"""Ids: their format, and that they sort by creation whatever the clock does."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.id import Ids, sort_id
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
def test_new_ids_sort_after_a_client_id_that_is_slightly_ahead() -> None:
    ahead = Ids(Steps(NOW + 5_000), Fixed(7)).message()
    ids = Ids(Steps(NOW), Fixed())
    ids.advance_past(ahead)
    assert ids.message() > ahead
    ids.advance_past(Ids(Steps(NOW - 10**9), Fixed()).message())
    assert ids.message() > ahead


@pytest.mark.spec("X-01")
@pytest.mark.parametrize(
    "given", ["", "msg_", "msg_mine", "msg_00000000000g" + "0" * 14, "msg_" + "0" * 25, "é"]
)
def test_advancing_past_an_invalid_id_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid id"):
        Ids(Steps(NOW), Fixed()).advance_past(given)


@pytest.mark.spec("X-01")
def test_an_id_of_a_time_to_come_is_refused_and_changes_nothing() -> None:
    ids = Ids(Steps(NOW), Fixed())
    before = ids.message()
    with pytest.raises(InvalidInput, match="lies in the future"):
        ids.advance_past(Ids(Steps(NOW + 60_000), Fixed()).message())
    assert int(ids.message()[4:16], 16) == int(before[4:16], 16) + 1


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("given", ["msg_ffffffffffffffffffffffffff", f"msg_{'f' * 11}e{'z' * 14}"])
def test_an_id_that_sorts_above_all_later_ids_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="lies in the future"):
        Ids(Steps(NOW), Fixed()).advance_past(given)


WRAP = 27 << 36
"""2028-10-17: 12 hex digits are over for the first time since there are ids of ours."""
LIVED = 26 << 36
"""2026-08-14: since then they have ascended."""
IN_2029, IN_2031, IN_2040 = 1_877_000_000_000, 1_940_000_000_000, 2_224_000_000_000
TIMES = st.integers(LIVED, 3_250_368_000_000)  # to the end of 2072


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize(
    ("now", "letter", "dashes"),
    [(WRAP - 1, "", 0), (WRAP, "g", 1), (IN_2029, "g", 1), (IN_2031, "h", 2), (IN_2040, "l", 6)],
)
def test_from_the_wrap_on_an_era_precedes_the_digits(now: int, letter: str, dashes: int) -> None:
    ids = Ids(Steps(now), Fixed(12345))
    for made in (ids.message(), *ids.messages(2), ids.part(), ids.event(), ids.call(), ids.request()):
        assert re.fullmatch(rf"[a-z]+_{letter}[0-9a-f]{{12}}[0-9A-Za-z]{{14}}", made)
    assert re.fullmatch(rf"ses_-{{{dashes}}}[0-9a-f]{{12}}[0-9A-Za-z]{{14}}", ids.session())


@pytest.mark.spec("Z-08")
@given(TIMES, TIMES)
def test_ids_of_any_two_times_sort_by_them(one: int, other: int) -> None:
    before, after = (Ids(Steps(time), Fixed(7)) for time in sorted((one, other)))
    parts, sessions = (before.part(), after.part()), (before.session(), after.session())
    assert (parts[0] < parts[1]) == (one != other)
    assert (sessions[0] > sessions[1]) == (one != other)
    assert all("prt_" < each < "prt_~" for each in parts)
    assert all("ses_" < each < "ses_~" for each in sessions)


@pytest.mark.spec("Z-08")
def test_eras_have_no_end() -> None:
    """z, the last letter, is over in May 2072; zg follows it, zz is over in 2115, and zzg follows that."""
    made = [Ids(Steps(each << 36), Fixed(7)).message() for each in range(26, 26 + 100)]
    assert all(a < b for a, b in pairwise(made))
    assert [made[era].removesuffix(made[0][4:]) for era in (20, 21, 40, 41)] == [
        f"msg_{era}" for era in ("z", "zg", "zz", "zzg")
    ]


@pytest.mark.spec("Z-08")
def test_ids_ascend_across_the_wrap_though_the_clock_steps_back_over_it() -> None:
    ids = Ids(Steps(WRAP - 1, WRAP, WRAP - 5_000, WRAP + 1), Fixed())
    made = [ids.message() for _ in range(4)]
    assert all(a < b for a, b in pairwise(made))
    assert [each[4] for each in made] == ["f", "g", "g", "g"]


def bare(now: int) -> str:
    """An id as OpenCode makes it at any time."""
    return f"msg_{now * 4096 + 1 & (1 << 48) - 1:012x}{'B' * 14}"


@pytest.mark.spec("Z-08")
@given(TIMES, st.integers(-1_000_000_000, 10_000))
def test_an_id_without_an_era_gets_the_nearest_one(now: int, apart: int) -> None:
    """Whatever the era, it sorts as one of ours of that time would."""
    client_id = sort_id(bare(now + apart), now, past=True)
    made = Ids(Steps(now + apart), Fixed(7)).message()
    assert client_id[-14:] == "B" * 14
    if now + apart >= LIVED:
        assert client_id[:-14] == made[:-14]
    assert sort_id(client_id, now) == client_id


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", [WRAP, WRAP + 2_000, IN_2029, IN_2031, IN_2040])
def test_new_ids_sort_after_a_client_id_without_an_era(now: int) -> None:
    for apart in (-3_000, 0, 4_000):
        client_id = bare(now + apart)
        ids = Ids(Steps(now), Fixed())
        ids.advance_past(client_id)
        assert ids.message() > sort_id(client_id, now)


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", [IN_2029, IN_2031, IN_2040])
def test_a_future_id_is_refused_with_and_without_an_era(now: int) -> None:
    ids = Ids(Steps(now), Fixed())
    for client_id in (bare(now + 60_000), Ids(Steps(now + 60_000), Fixed()).message()):
        with pytest.raises(InvalidInput, match="lies in the future"):
            ids.advance_past(client_id)


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("near", [-1, 1 << 44, 1 << 53, 10**400])
def test_an_invalid_time_adds_no_era_to_an_id(near: int) -> None:
    assert sort_id(bare(IN_2040), near, past=True) == bare(IN_2040)


@pytest.mark.spec("Z-08")
def test_an_id_before_august_2026_gets_an_era_only_with_past() -> None:
    in_2025 = 1_750_000_000_000
    assert sort_id(bare(in_2025), in_2025) == bare(in_2025)
    assert sort_id(bare(in_2025), in_2025, past=True) == bare(in_2025).replace("_", "_-")
    older, newer = (sort_id(bare(each), each, past=True) for each in (LIVED - 1, LIVED))
    assert older < newer == bare(LIVED)
