"""Input is durable, kept once, shown at once, and wakes its session."""

import asyncio

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import MessageUpdated, PartUpdated
from asyncagents.domain.fact import AdmitResult
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import Conflict, NotFound, RequestError
from asyncagents.store.verb.read import InputRow
from tests.support.store.lab import ALICE, MODEL, Lab


@pytest.mark.spec("S-12", "S-03")
async def test_input_is_kept_shown_and_published_at_once(lab: Lab) -> None:
    session_id = await lab.session()
    lab.commits.clear()
    fact = lab.input(session_id, "build it")
    assert await lab.store.admit(fact) == AdmitResult(fact.message.id, new=True)

    entry = await lab.store.message(fact.message.id)
    assert entry.info == fact.message
    assert entry.parts == fact.parts
    assert await lab.store.messages(session_id) == (entry,)
    assert await lab.store.history(session_id) == ()
    assert await lab.store.input(fact.message.id) == InputRow(
        fact.message.id, session_id, "queued", None, None
    )
    kinds = [type(event) for event in lab.events]
    assert kinds.index(MessageUpdated) < kinds.index(PartUpdated)


@pytest.mark.spec("S-14")
async def test_a_repeated_key_returns_the_first_message_and_changes_nothing(lab: Lab) -> None:
    session_id = await lab.session()
    first = lab.input(session_id, "once", key="k")
    await lab.store.admit(first)
    before, cursor = await lab.read_everything(), await lab.store.cursor()
    lab.commits.clear()
    for again in (first, lab.input(session_id, "other words", key="k")):
        assert await lab.store.admit(again) == AdmitResult(first.message.id, new=False)
    assert await lab.read_everything() == before
    assert await lab.store.cursor() == cursor
    assert lab.events == []
    assert lab.woken == []


@pytest.mark.spec("S-14")
async def test_a_repeated_key_changes_nothing_after_the_turn_is_over(lab: Lab) -> None:
    session_id = await lab.session()
    fact = lab.input(session_id, key="k")
    await lab.store.admit(fact)
    claim = await lab.claim(session_id)
    snapshot = await lab.end(claim, await lab.step(claim))
    await lab.store.rest(claim, snapshot.control.wake_seq, "done")
    before = await lab.read_everything()
    assert await lab.store.admit(fact) == AdmitResult(fact.message.id, new=False)
    assert await lab.read_everything() == before


async def test_the_same_key_may_be_used_in_two_sessions(lab: Lab) -> None:
    one, other = await lab.session(), await lab.session()
    await lab.store.admit(lab.input(one, key="k"))
    assert (await lab.store.admit(lab.input(other, key="k"))).new


async def test_a_message_id_that_is_taken_is_a_conflict(lab: Lab) -> None:
    session_id, other = await lab.session(), await lab.session()
    taken = lab.input(session_id)
    await lab.store.admit(taken)
    before = await lab.read_everything()
    thief = lab.input(other)
    stolen = replace(thief, message=replace(thief.message, id=taken.message.id))
    with pytest.raises(Conflict, match=taken.message.id):
        await lab.store.admit(stolen)
    assert await lab.read_everything() == before


async def test_a_part_id_that_is_taken_is_refused(lab: Lab) -> None:
    session_id = await lab.session()
    first, second = lab.input(session_id), lab.input(session_id)
    await lab.store.admit(first)
    before = await lab.read_everything()
    (part,) = second.parts
    thief = replace(second, parts=(replace(part, id=first.parts[0].id),))
    with pytest.raises(Conflict, match=first.parts[0].id):
        await lab.store.admit(thief)
    twice = replace(second, parts=(part, replace(part, text="over it")))
    with pytest.raises(RequestError, match=part.id):
        await lab.store.admit(twice)
    assert await lab.read_everything() == before


@pytest.mark.spec("S-12")
async def test_input_wakes_a_session_exactly_once(lab: Lab) -> None:
    session_id = await lab.session()
    lab.commits.clear()
    fact = lab.input(session_id)
    await lab.store.admit(fact)
    await lab.store.admit(fact)
    control = await lab.store.control(session_id)
    assert control.state == "ready"
    assert control.wake_seq == 1
    assert lab.woken == [session_id]


async def test_input_for_a_running_session_moves_its_wake_count(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    before = await lab.store.control(session_id)
    lab.commits.clear()
    await lab.prompt(session_id)
    after = await lab.store.control(session_id)
    assert after.state == "running"
    assert after.wake_seq == before.wake_seq + 1
    assert after.fence == claim.fence
    assert lab.woken == [session_id]


async def test_input_without_a_wake_is_held_and_read_with_the_next_prompt(lab: Lab) -> None:
    session_id = await lab.session()
    lab.commits.clear()
    quiet = await lab.prompt(session_id, "by the way", wakes=False)
    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert control.wake_seq == 0
    assert lab.woken == []
    assert (await lab.store.input(quiet)).state == "held"
    assert [entry.info.id for entry in await lab.store.messages(session_id)] == [quiet]
    assert await lab.store.claim(session_id, ALICE, dead=None) is None

    loud = await lab.prompt(session_id, "go")
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    assert [entry.info.id for entry in step.started.tail] == [quiet, loud]
    assert (await lab.store.input(quiet)).state == "promoted"


async def test_input_for_an_unknown_session_is_refused(lab: Lab) -> None:
    with pytest.raises(NotFound, match="ses_nobody"):
        await lab.prompt(SessionId("ses_nobody"))
    with pytest.raises(NotFound):
        await lab.store.input(MessageId("msg_nobody"))


async def test_a_session_takes_agent_and_model_from_its_last_prompt(lab: Lab) -> None:
    session_id = await lab.session()
    fact = lab.input(session_id)
    lab.clock.advance(9)
    other = replace(MODEL, model_id="raven", variant="high")
    await lab.store.admit(replace(fact, message=replace(fact.message, agent="plan", model=other)))
    info = await lab.store.session(session_id)
    assert info.model is not None
    assert info.agent == "plan"
    assert info.model.id == "raven"
    assert info.model.variant == "high"
    assert info.time.updated == lab.clock.now()


@pytest.mark.spec("S-12")
async def test_concurrent_prompts_are_all_admitted_once_per_key(lab: Lab) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {n}", key=f"k{n % 10}") for n in range(30)]
    answers = await asyncio.gather(*(lab.store.admit(fact) for fact in facts))
    assert sum(answer.new for answer in answers) == 10
    assert (await lab.store.control(session_id)).wake_seq == 10
    claim = await lab.claim(session_id)
    tail = (await lab.step(claim)).started.tail
    texts = [part.text for entry in tail for part in entry.parts if isinstance(part, TextPart)]
    assert texts == [f"no. {n}" for n in range(10)]
