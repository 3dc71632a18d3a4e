"""When other processes are told of a commit: seldom for many, soon for work, and once for all."""

import pytest

from asyncagents.store.postgres.notify import (
    ALL_POOLS,
    BATCH_WINDOW_SECONDS,
    MAX_PAYLOAD_BYTES,
    NEW_WORK,
    RECEIVED_SECONDS,
    NotifySchedule,
    decode_pools,
)
from asyncagents.testing.clock import SeededRng

NOBODY: frozenset[str] = frozenset()
OURS, THEIRS = frozenset({"ours"}), frozenset({"theirs"})


@pytest.fixture
def news() -> NotifySchedule:
    return NotifySchedule(SeededRng(1))


def test_commits_without_work_share_one_notification(news: NotifySchedule) -> None:
    news.add_commit(10.0, NOBODY)
    news.add_commit(10.02, NOBODY)
    assert news.at == 10.0 + BATCH_WINDOW_SECONDS
    assert news.take_payload(10.03) == ""
    assert news.at is None


def test_new_work_is_notified_at_once(news: NotifySchedule) -> None:
    news.add_commit(10.0, NOBODY)
    news.add_commit(10.01, OURS)
    assert news.at == 10.01
    assert decode_pools(news.take_payload(10.01)) == OURS


def test_work_soon_after_a_notification_of_another_process_waits(news: NotifySchedule) -> None:
    news.receive(10.0, THEIRS)
    news.add_commit(10.001, OURS)
    assert news.at is not None
    assert 10.001 < news.at <= 10.0 + 1.5 * BATCH_WINDOW_SECONDS


def test_a_later_notification_of_another_process_replaces_our_own(news: NotifySchedule) -> None:
    news.add_commit(10.0, NOBODY)
    news.receive(10.0 + 2 * RECEIVED_SECONDS, NOBODY)
    assert news.at is None


def test_a_notification_of_another_process_does_not_cover_a_fresh_commit(news: NotifySchedule) -> None:
    """Whoever told may have told before it was there."""
    news.add_commit(10.0, NOBODY)
    news.add_commit(10.019, NOBODY)
    news.receive(10.02, NOBODY)
    assert news.at is not None


@pytest.mark.parametrize("heard", [NOBODY, THEIRS, OURS, frozenset({ALL_POOLS})])
def test_new_work_is_notified_despite_notifications_of_others(
    news: NotifySchedule, heard: frozenset[str]
) -> None:
    """They may have told before it was there, and we may have heard late of it."""
    news.receive(9.999, THEIRS)
    news.add_commit(10.0, OURS)
    news.receive(10.0 + 2 * RECEIVED_SECONDS, heard)
    assert news.at is not None
    assert decode_pools(news.take_payload(10.1)) == OURS


def test_a_notification_with_too_many_pools_is_for_all_pools(news: NotifySchedule) -> None:
    news.add_commit(10.0, frozenset(f"host.{number:040d}" for number in range(MAX_PAYLOAD_BYTES // 40)))
    assert news.take_payload(10.0) == NEW_WORK
    assert decode_pools(NEW_WORK) == {ALL_POOLS}
