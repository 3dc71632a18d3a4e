"""Sessions: what they belong to, their default titles and their sums."""

import pytest
from hypothesis import given

from asyncagents.domain.conversation.codec import decode_session
from asyncagents.domain.conversation.session import (
    CacheTokens,
    Session,
    SessionTime,
    Tokens,
    default_title,
    random_slug,
)
from asyncagents.domain.shape import encode
from tests.support.domain.strategy import nouns


class Counting:
    def __init__(self) -> None:
        self._next = 0

    def below(self, n: int) -> int:
        self._next += 1
        return self._next % n


@pytest.mark.spec("S-01")
def test_a_default_title_carries_the_time_of_creation() -> None:
    assert default_title(1_794_770_256_144, child=False) == "New session - 2026-11-15T19:17:36.144Z"
    assert default_title(1_794_770_256_004, child=True) == "Child session - 2026-11-15T19:17:36.004Z"


@pytest.mark.spec("S-01")
@given(nouns(Session))
def test_a_session_survives_its_bytes(session: Session) -> None:
    assert decode_session(encode(session)) == session


@pytest.mark.spec("S-01")
def test_a_child_names_its_parent_and_its_project_on_the_wire() -> None:
    raw = encode(
        decode_session(
            b'{"id":"ses_1","slug":"a-b","projectID":"p","directory":"/d","parentID":"ses_0","title":"t",'
            b'"version":"1","time":{"created":1,"updated":2}}'
        )
    )
    assert b'"projectID":"p"' in raw
    assert b'"parentID":"ses_0"' in raw
    assert b"null" not in raw


def test_times_that_are_absent_are_left_out() -> None:
    assert encode(SessionTime(created=1, updated=2)) == b'{"created":1,"updated":2}'


def test_tokens_add_up_and_a_total_needs_both_sides() -> None:
    some = Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5), total=15)
    assert Tokens.zero().plus(some) == Tokens(
        input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5)
    )
    assert some.plus(some).total == 30


def test_a_slug_is_two_words() -> None:
    quality, thing = random_slug(Counting()).split("-")
    assert quality.isalpha()
    assert thing.isalpha()
