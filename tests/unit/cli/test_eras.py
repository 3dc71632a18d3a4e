"""What a run shows and counts when a terminal has prompted in the same session, in years to come."""

import pytest
from msgspec.structs import replace

from asyncagents.cli.run.result import last_answer, steps_of_turn
from asyncagents.cli.run.view import TextTracker
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import MessageTime
from asyncagents.domain.id import Ids, MessageId
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.domain.event import SESSION, entry, step, text, update_event, user_message

SECOND = 1_000
NOW = [pytest.param(1_877_000_000_000, id="2029"), pytest.param(1_940_000_000_000, id="2031")]


def ours(now: int) -> MessageId:
    return Ids(FakeClock(now), SeededRng(3)).message()


def prompt(now: int) -> MessageWithParts:
    """By a terminal, which makes ids without an era."""
    message_id = f"msg_{now * 4096 + 1 & (1 << 48) - 1:012x}{'E' * 14}"
    said = replace(user_message(message_id), time=MessageTime(created=now))
    return entry(said, text(message_id, "Hello?"))


def answer(now: int) -> MessageWithParts:
    said = replace(step(ours(now), done=True), time=MessageTime(created=now, completed=now))
    return entry(said, text(said.id, "Yes.", id=f"prt_{now}"))


def talk(now: int) -> list[MessageWithParts]:
    """Two prompts; the second one has two steps."""
    return [
        prompt(now),
        answer(now + SECOND),
        prompt(now + 2 * SECOND),
        answer(now + 3 * SECOND),
        answer(now + 4 * SECOND),
    ]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", NOW)
def test_the_steps_of_a_turn_are_those_since_its_prompt(now: int) -> None:
    said = talk(now)
    assert [each.id for each in steps_of_turn(said, said[4], said[2].info.id)] == [
        each.info.id for each in said[3:]
    ]
    assert [each.id for each in steps_of_turn(said, said[1], said[0].info.id)] == [said[1].info.id]
    assert last_answer(said, said[1]) == said[1], "the next prompt has an answer of its own"
    assert last_answer(said, said[3]) == said[4]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", NOW)
def test_an_answer_before_the_last_terminal_prompt_is_not_shown_as_new(now: int) -> None:
    said = talk(now)[:3]
    tracker = TextTracker(SESSION, said[-1])
    fresh = answer(now + 3 * SECOND)
    shown: list[str] = []
    for each in (said[1], fresh):
        for event in (update_event(each.info), *(update_event(part) for part in each.parts)):
            shown += [one.words for one in tracker.new_text(event)]
    assert shown == ["Yes."], "the new one alone"
