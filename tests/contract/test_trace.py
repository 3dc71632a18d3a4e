"""Where a session stands in a trace: set by who speaks first, kept by its run, the same for a whole turn."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.id import SessionId
from asyncagents.errors import ClaimLost
from tests.support.store.lab import ALICE, BOB, Lab

ONE, TWO = (f"00-{digit * 32}-{digit * 16}-01" for digit in "12")


async def speak(lab: Lab, session_id: SessionId, trace: str | None, **more: object) -> None:
    await lab.store.admit(replace(lab.input(session_id, **more), trace=trace))  # type: ignore[arg-type]


@pytest.mark.spec("X-08")
async def test_a_turn_has_the_trace_of_its_prompt(lab: Lab) -> None:
    session_id = await lab.session()
    assert await lab.store.trace(session_id) is None
    await speak(lab, session_id, ONE)
    snapshot = await lab.store.claim(session_id, ALICE, dead=None)
    assert snapshot is not None
    assert snapshot.control.trace == ONE
    assert await lab.store.trace(SessionId("ses_nobody")) is None


async def test_later_prompts_of_a_turn_do_not_change_its_trace(lab: Lab) -> None:
    session_id = await lab.session()
    await speak(lab, session_id, ONE)
    await speak(lab, session_id, TWO)  # before anybody has begun
    claim = await lab.claim(session_id)
    await speak(lab, session_id, None)
    step = await lab.step(claim)
    await speak(lab, session_id, TWO)
    await lab.end(claim, step)
    await lab.step(claim)
    assert await lab.store.trace(session_id) == ONE


async def rested(lab: Lab, trace: str) -> SessionId:
    """A session whose turn is over."""
    session_id = await lab.session()
    await speak(lab, session_id, trace)
    claim = await lab.claim(session_id)
    ended = await lab.end(claim, await lab.step(claim))
    assert await lab.store.rest(claim, ended.control.wake_seq, "done")
    return session_id


@pytest.mark.parametrize("trace", [TWO, None])
async def test_the_next_prompt_of_a_person_replaces_the_trace(lab: Lab, trace: str | None) -> None:
    session_id = await rested(lab, ONE)
    await speak(lab, session_id, trace)
    assert await lab.store.trace(session_id) == trace


async def test_input_without_a_wake_or_of_the_system_keeps_the_trace(lab: Lab) -> None:
    session_id = await rested(lab, ONE)
    await speak(lab, session_id, TWO, wakes=False)
    await speak(lab, session_id, None, source="system")
    assert await lab.store.trace(session_id) == ONE


async def test_a_repeated_key_does_not_change_the_trace(lab: Lab) -> None:
    session_id = await rested(lab, ONE)
    fact = replace(lab.input(session_id, key="k"), trace=TWO)
    await lab.store.admit(fact)
    claim = await lab.claim(session_id)
    ended = await lab.end(claim, await lab.step(claim))
    assert await lab.store.rest(claim, ended.control.wake_seq, "done")
    await lab.store.admit(replace(fact, trace=ONE))
    assert await lab.store.trace(session_id) == TWO


async def test_only_the_owner_of_a_session_saves_its_trace(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    await lab.store.save_trace(claim, ONE)
    await lab.claim(session_id, BOB, dead=ALICE)
    with pytest.raises(ClaimLost):
        await lab.store.save_trace(claim, TWO)
    assert await lab.store.trace(session_id) == ONE
