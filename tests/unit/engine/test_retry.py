"""When a request is tried again: the policy as a table."""

import pytest

from asyncagents.domain.conversation.failure import (
    Failure,
    aborted_error,
    api_error,
    context_overflow_error,
    provider_auth_error,
    unknown_error,
)
from asyncagents.engine.step.retry import MAX_RETRIES, RetryHint, is_rate_limited, retry_pause_ms


class Least:
    def below(self, n: int) -> int:
        return 0


class Most:
    def below(self, n: int) -> int:
        return n - 1


BUSY = api_error("overloaded", is_retryable=True, status_code=529)


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("attempt", "least", "most"), [(1, 2_000, 2_499), (2, 4_000, 4_999), (5, 32_000, 39_999)]
)
def test_the_wait_doubles_and_is_spread(attempt: int, least: int, most: int) -> None:
    assert retry_pause_ms(BUSY, attempt, RetryHint(), Least()) == least
    assert retry_pause_ms(BUSY, attempt, RetryHint(), Most()) == most


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [(0.0, 0, 99), (1.5, 1_500, 1_749), (60.0, 60_000, 66_099), (-3.0, 0, 99)],
)
def test_the_wait_that_the_provider_requests_is_kept(seconds: float, least: int, most: int) -> None:
    assert retry_pause_ms(BUSY, 5, RetryHint(seconds), Least()) == least
    assert retry_pause_ms(BUSY, 5, RetryHint(seconds), Most()) == most


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    "failure",
    [
        None,
        aborted_error(),
        unknown_error("?"),
        context_overflow_error("too long"),
        provider_auth_error("anthropic", "no key"),
        api_error("no such model", is_retryable=False),
    ],
)
def test_other_failures_are_not_tried_again(failure: Failure | None) -> None:
    assert retry_pause_ms(failure, 1, RetryHint(), Least()) is None


@pytest.mark.spec("C-05")
def test_there_are_five_retries() -> None:
    assert [
        retry_pause_ms(BUSY, attempt, RetryHint(), Least()) is None
        for attempt in (MAX_RETRIES, MAX_RETRIES + 1)
    ] == [
        False,
        True,
    ]


def test_a_wait_of_more_than_a_day_is_a_failure() -> None:
    assert retry_pause_ms(BUSY, 1, RetryHint(90_000.0), Least()) is None


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_a_requested_wait_that_is_no_number_is_ignored(odd: float) -> None:
    assert retry_pause_ms(BUSY, 1, RetryHint(odd), Least()) == 2_000


def test_only_status_429_is_a_rate_limit() -> None:
    limited = api_error("slow down", is_retryable=True, status_code=429)
    assert [is_rate_limited(each) for each in (limited, BUSY, unknown_error("?"), None)] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.spec("C-05")
def test_a_failure_may_allow_fewer_tries_and_never_more() -> None:
    once = RetryHint(most=1)
    assert retry_pause_ms(BUSY, 1, once, Least()) == 2_000
    assert retry_pause_ms(BUSY, 2, once, Least()) is None
    assert retry_pause_ms(BUSY, MAX_RETRIES + 1, RetryHint(most=99), Least()) is None
