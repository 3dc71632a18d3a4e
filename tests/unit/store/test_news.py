"""When other processes are told of a commit: seldom for many, soon for work, and once for all."""

import pytest

from asyncagents.store.postgres.notify import (
    EVERY_POOL,
    GATHER_SECONDS,
    HEARD_SECONDS,
    LONGEST,
    NEW_WORK,
    News,
    pools_of,
)
from asyncagents.testing.clock import SeededRng

NOBODY: frozenset[str] = frozenset()
OURS, THEIRS = frozenset({"ours"}), frozenset({"theirs"})


@pytest.fixture
def news() -> News:
    return News(SeededRng(1))


def test_rows_are_gathered_and_told_together(news: News) -> None:
    news.committed(10.0, NOBODY)
    news.committed(10.02, NOBODY)
    assert news.at == 10.0 + GATHER_SECONDS
    assert news.say(10.03) == ""
    assert news.at is None


def test_work_is_told_at_once_with_what_is_gathered(news: News) -> None:
    news.committed(10.0, NOBODY)
    news.committed(10.01, OURS)
    assert news.at == 10.01
    assert pools_of(news.say(10.01)) == OURS


def test_more_work_waits_a_while_wherever_the_first_was_told(news: News) -> None:
    news.heard(10.0, THEIRS)
    news.committed(10.001, OURS)
    assert news.at is not None
    assert 10.001 < news.at <= 10.0 + 1.5 * GATHER_SECONDS


def test_what_somebody_else_told_is_not_told_again(news: News) -> None:
    news.committed(10.0, NOBODY)
    news.heard(10.0 + 2 * HEARD_SECONDS, NOBODY)
    assert news.at is None


def test_what_was_committed_just_now_is(news: News) -> None:
    """Whoever told may have told before it was there."""
    news.committed(10.0, NOBODY)
    news.committed(10.019, NOBODY)
    news.heard(10.02, NOBODY)
    assert news.at is not None


@pytest.mark.parametrize("heard", [NOBODY, THEIRS, OURS, frozenset({EVERY_POOL})])
def test_work_is_told_whatever_others_tell(news: News, heard: frozenset[str]) -> None:
    """They may have told before it was there, and we may have heard late of it."""
    news.heard(9.999, THEIRS)
    news.committed(10.0, OURS)
    news.heard(10.0 + 2 * HEARD_SECONDS, heard)
    assert news.at is not None
    assert pools_of(news.say(10.1)) == OURS


def test_too_many_pools_for_one_notification_are_all_of_them(news: News) -> None:
    news.committed(10.0, frozenset(f"host.{number:040d}" for number in range(LONGEST // 40)))
    assert news.say(10.0) == NEW_WORK
    assert pools_of(NEW_WORK) == {EVERY_POOL}
