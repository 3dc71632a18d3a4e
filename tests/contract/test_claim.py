"""A session is run by one at a time; who died is followed by who lives."""

import asyncio
from typing import Any

import msgspec
import pytest

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    PartTime,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolFailed,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.conversation.status import Busy
from asyncagents.domain.event import SessionStatus
from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import ClaimLost
from asyncagents.store.verb.read import ActiveSession
from tests.support.store.lab import ALICE, BOB, POOL, Lab, Step


async def test_only_a_ready_session_can_be_claimed(lab: Lab) -> None:
    session_id = await lab.session()
    assert await lab.store.claim(session_id, ALICE, dead=None) is None
    assert await lab.store.claim(SessionId("ses_nobody"), ALICE, dead=None) is None
    await lab.prompt(session_id)
    snapshot = await lab.store.claim(session_id, ALICE, dead=None)
    assert snapshot is not None
    control = snapshot.control
    assert control.state == "running"
    assert control.owner == ALICE
    assert control.fence == 1
    assert control.claims == 1
    assert snapshot.unread == 1
    assert snapshot.calls == ()
    assert snapshot.last is None
    assert control == await lab.store.control(session_id)


async def test_a_running_session_is_only_claimed_from_its_dead_owner(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    assert await lab.store.claim(session_id, BOB, dead=None) is None
    assert await lab.store.claim(session_id, BOB, dead=OwnerId("carol")) is None
    assert await lab.store.claim(session_id, BOB, dead=BOB) is None
    assert (await lab.store.control(session_id)).fence == claim.fence
    taken = await lab.claim(session_id, BOB, dead=ALICE)
    assert taken.fence == claim.fence + 1
    with pytest.raises(ClaimLost):
        await lab.store.snapshot(claim)


async def test_of_many_claimers_one_wins(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id)
    claims = [lab.store.claim(session_id, OwnerId(f"own{n}"), dead=None) for n in range(20)]
    won = [snapshot for snapshot in await asyncio.gather(*claims) if snapshot is not None]
    assert len(won) == 1
    assert won[0].control == await lab.store.control(session_id)


async def test_active_sessions_are_those_that_are_not_idle(lab: Lab) -> None:
    await lab.session()
    ready = await lab.session()
    await lab.prompt(ready)
    running, _, _ = await lab.claim_prompted()
    found = await lab.store.active_sessions(POOL)
    assert set(found) == {ActiveSession(ready, "ready", None), ActiveSession(running, "running", ALICE)}
    assert await lab.store.active_sessions("elsewhere") == ()
    first = await lab.store.active_sessions(POOL, limit=1)
    assert first + await lab.store.active_sessions(POOL, after=first[0].session_id) == found


async def test_a_released_session_may_be_claimed_at_once(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    lab.commits.clear()
    await lab.store.release(claim)
    assert lab.woken == [session_id]
    with pytest.raises(ClaimLost):
        await lab.store.release(claim)
    again = await lab.claim(session_id, BOB)
    control = await lab.store.control(session_id)
    assert again.fence == claim.fence + 1
    assert control.claims == 1


async def test_claims_are_counted_until_a_step_ends(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    for claims in (2, 3, 4):
        claim = await lab.claim(session_id, ALICE, dead=ALICE)
        snapshot = await lab.store.snapshot(claim)
        assert snapshot.control.claims == claims
        assert snapshot.in_crash_loop == (claims > 3)
    snapshot = await lab.end(claim, await lab.step(claim))
    assert snapshot.control.claims == 0
    assert snapshot.in_crash_loop is False


async def _cut_off(lab: Lab) -> tuple[SessionId, Claim, Step]:
    """A step whose text, reasoning and call are half written when the process stops."""
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    base: dict[str, Any] = {"session_id": session_id, "message_id": step.id}
    parts = (
        ReasoningPart(id=lab.ids.part(), text="hm", time=PartTime(start=1), **base),
        lab.text(step, "I will"),
        ToolPart(
            id=lab.ids.part(), call_id="toolu_1", tool="bash", state=ToolPending(input={}, raw='{"co'), **base
        ),
        lab.text(step, "whole", end=5),
    )
    await lab.write(claim, *parts)
    return session_id, claim, step


@pytest.mark.spec("X-11")
async def test_a_cut_off_step_is_closed_for_people_and_hidden_from_the_model(lab: Lab) -> None:
    session_id, _, step = await _cut_off(lab)
    lab.clock.advance(1_000)
    snapshot = await lab.store.claim(session_id, BOB, dead=ALICE)
    assert snapshot is not None
    assert snapshot.step is None

    entry = await lab.store.message(step.id)
    assert isinstance(entry.info, AssistantMessage)
    assert entry.info.error is not None
    assert entry.info.time.completed == lab.clock.now()
    assert entry in await lab.store.messages(session_id)
    assert [e.info.id for e in await lab.store.history(session_id)] == [entry.info.parent_id]
    start, reasoning, text, tool, whole = entry.parts
    assert isinstance(start, StepStartPart)
    assert isinstance(reasoning, ReasoningPart)
    assert reasoning.time.end == lab.clock.now()
    assert isinstance(text, TextPart)
    assert text.time == PartTime(start=1_700_000_000_000, end=lab.clock.now())
    assert isinstance(tool, ToolPart)
    assert isinstance(tool.state, ToolFailed)
    assert isinstance(whole, TextPart)
    assert whole.time is not None
    assert whole.time.end == 5


@pytest.mark.spec("X-11")
async def test_a_lost_request_is_charged_as_estimated_once(lab: Lab) -> None:
    session_id, _, step = await _cut_off(lab)
    await lab.claim(session_id, BOB, dead=ALICE)
    ((request_id, message_id, state, tokens, estimated),) = await lab.requests(session_id)
    assert request_id == step.request_id
    assert message_id == step.id
    assert state == "lost"
    assert estimated == 1
    spent = msgspec.json.decode(tokens, type=Tokens)
    assert spent.input > 0
    assert (await lab.store.session(session_id)).tokens == spent

    before = await lab.store.messages(session_id), await lab.requests(session_id)
    await lab.claim(session_id, ALICE, dead=BOB)
    assert (await lab.store.messages(session_id), await lab.requests(session_id)) == before
    assert (await lab.store.session(session_id)).tokens == spent


@pytest.mark.spec("X-11")
async def test_after_a_cut_off_step_the_same_prompt_is_answered_in_the_same_turn(lab: Lab) -> None:
    session_id, _, step = await _cut_off(lab)
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    again = await lab.step(claim)
    assert again.started.message.parent_id == step.started.message.parent_id
    assert [e.info.id for e in again.started.tail] == [again.started.message.parent_id]
    assert (await lab.store.control(session_id)).turn == 1
    snapshot = await lab.end(claim, again)
    assert snapshot.step is not None
    assert snapshot.step.id == again.id


async def test_a_released_step_is_closed_like_one_that_was_cut_off(lab: Lab) -> None:
    session_id, claim, step = await _cut_off(lab)
    await lab.store.release(claim)
    assert [e.info.id for e in await lab.store.history(session_id)] == [step.started.message.parent_id]
    assert [row[2] for row in await lab.requests(session_id)] == ["lost"]


@pytest.mark.spec("C-06")
async def test_claiming_does_not_change_the_status(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id)
    lab.commits.clear()
    await lab.claim(session_id)
    assert await lab.store.status(session_id) == Busy()
    assert not [event for event in lab.events if isinstance(event, SessionStatus)]


async def test_a_claim_after_a_failed_write_is_not_counted_as_a_crash(lab: Lab) -> None:
    """Nothing crashed: a full disk is no crash loop, however long it stays full."""
    session_id, _, _ = await lab.claim_prompted()
    for _ in range(6):
        snapshot = await lab.store.claim(session_id, ALICE, dead=ALICE, counts=False)
        assert snapshot is not None
        assert not snapshot.in_crash_loop


async def test_a_process_gives_back_only_its_own_claim(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id)
    await lab.store.give_back(session_id, ALICE)
    claim = await lab.claim(session_id, ALICE)
    await lab.store.give_back(session_id, BOB)
    assert (await lab.store.control(session_id)).owner == ALICE
    await lab.store.give_back(session_id, ALICE)
    control = await lab.store.control(session_id)
    assert control.state == "ready"
    assert control.owner is None
    assert control.claims == 0
    with pytest.raises(ClaimLost):
        await lab.store.release(claim)
