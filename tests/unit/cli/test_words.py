"""The words of an answer are shown once each, in order, whoever writes them and however they arrive."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from asyncagents.cli.run.view import TextTracker
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.event import Event
from asyncagents.domain.id import MessageId, SessionId
from tests.support.domain.event import (
    SESSION,
    delta,
    entry,
    reasoning_part,
    step,
    text,
    update_event,
    user_message,
)


def shown(events: Iterable[Event], last: MessageWithParts | None = None, *, live: bool = False) -> str:
    tracker = TextTracker(SESSION, last, live=live)
    return "".join(fresh.words for event in events for fresh in tracker.new_text(event))


NEW = update_event(step("msg_2"))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([NEW, update_event(text("msg_2", "")), delta("a", 0), delta("b", 1)], "ab", id="deltas"),
        pytest.param(
            [NEW, update_event(text("msg_2", "a")), update_event(text("msg_2", "abc"))], "abc", id="grown"
        ),
        pytest.param(
            [NEW, update_event(text("msg_2", "ab")), delta("b", 1), delta("c", 2)],
            "abc",
            id="a delta that was in",
        ),
        pytest.param(
            [NEW, update_event(text("msg_2", "a")), delta("c", 2), update_event(text("msg_2", "abc"))],
            "abc",
            id="a gap",
        ),
        pytest.param(
            [NEW, update_event(text("msg_2", "ab")), update_event(text("msg_2", "a"))],
            "ab",
            id="trimmed at the end",
        ),
        pytest.param([delta("a", 0)], "", id="a delta of nobody knows what"),
        pytest.param(
            [update_event(user_message("msg_1")), update_event(text("msg_1", "Hi"))], "", id="a prompt"
        ),
        pytest.param([update_event(text("msg_2", "ab")), NEW], "ab", id="a part before its message"),
        pytest.param([NEW, update_event(text("msg_2", "x", synthetic=True))], "", id="synthetic"),
        pytest.param([NEW, update_event(reasoning_part("msg_2", "hm"))], "hm", id="reasoning"),
        pytest.param(
            [update_event(step("msg_2"), session_id=SessionId("ses_2")), update_event(text("msg_2", "a"))],
            "",
            id="of another session",
        ),
    ],
)
def test_each_word_is_shown_once(events: list[Event], expected: str) -> None:
    assert shown(events) == expected


UNDER_WAY = entry(step("msg_2"), text("msg_2", "Once"))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [update_event(text("msg_2", "Once")), update_event(step("msg_2", cut=True))],
            "",
            id="cut off: it is old",
        ),
        pytest.param([update_event(text("msg_2", "Once upon"))], "Once upon", id="it grows: it is new"),
        pytest.param([update_event(step("msg_2", done=True))], "Once", id="it ends well"),
        pytest.param([update_event(step("msg_2"))], "", id="nothing is known"),
        pytest.param(
            [
                update_event(step("msg_2", cut=True)),
                update_event(step("msg_3")),
                update_event(text("msg_3", "Twice", id="prt_2")),
            ],
            "Twice",
            id="cut off, and written again",
        ),
    ],
)
def test_an_answer_that_was_begun_before_is_shown_if_it_goes_on(events: list[Event], expected: str) -> None:
    assert shown(events, UNDER_WAY) == expected


def test_an_answer_that_another_process_is_writing_is_shown_from_its_beginning() -> None:
    begun = [update_event(part) for part in UNDER_WAY.parts]
    assert shown([*begun, update_event(text("msg_2", "Once upon"))], UNDER_WAY, live=True) == "Once upon"


def test_an_answer_completed_before_is_not_shown_again() -> None:
    last = entry(step("msg_2", done=True), text("msg_2", "Old"))
    assert shown([update_event(last.info), *map(update_event, last.parts)], last) == ""
    assert shown([update_event(last.info), *map(update_event, last.parts)], last, live=True) == ""


@given(st.text(min_size=1, max_size=30), st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=20))
def test_any_mixture_of_deltas_and_parts_shows_the_whole_text_once(
    whole: str, pieces: list[tuple[bool, int]]
) -> None:
    events = [NEW, update_event(text("msg_2", ""))]
    for as_part, upto in pieces:
        events.append(
            update_event(text("msg_2", whole[:upto])) if as_part else delta(whole[upto : upto + 5], upto)
        )
    assert shown([*events, update_event(text("msg_2", whole))]) == whole


def test_a_summary_is_shown_only_if_the_own_prompt_requested_it() -> None:
    summary = replace(step("msg_2"), summary=True, parent_id=MessageId("msg_1"))
    events = [update_event(summary), update_event(text("msg_2", "Goal: ship it.")), delta("!", 14)]
    for asked_id, expected in ((None, ""), (MessageId("msg_9"), ""), (MessageId("msg_1"), "Goal: ship it.!")):
        tracker = TextTracker(SESSION, None, asked=asked_id)
        assert "".join(fresh.words for event in events for fresh in tracker.new_text(event)) == expected


def test_a_summary_begun_before_is_not_shown_as_an_answer() -> None:
    summary = replace(step("msg_2"), summary=True)
    last = entry(summary, text("msg_2", "Goal:"))
    assert shown([update_event(text("msg_2", "Goal: ship"))], last, live=True) == ""
    assert shown([update_event(text("msg_2", "Goal: ship"))], last) == ""
