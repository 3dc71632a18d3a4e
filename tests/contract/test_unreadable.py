"""A row that cannot be read fails its own session, with a clear error; all others go on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import MessageUpdated, SessionError
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import StoreError
from tests.support.store.lab import ALICE, BOB, POOL, PROJECT, Lab, state_of
from tests.support.store.row import (
    rewrite_call,
    rewrite_message,
    rewrite_part,
    rewrite_session,
    rewrite_status,
)

Break: TypeAlias = Callable[[Lab, SessionId, Call], Awaitable[None]]


async def _session(lab: Lab, session_id: SessionId, call: Call) -> None:
    await rewrite_session(lab, session_id, b'{"id": 7', 1)


async def _message(lab: Lab, session_id: SessionId, call: Call) -> None:
    await rewrite_message(lab, call.message_id, b"\xff\x00", 1)


async def _part(lab: Lab, session_id: SessionId, call: Call) -> None:
    parts = (await lab.store.message(call.message_id)).parts
    text = next(part for part in parts if isinstance(part, TextPart))
    await rewrite_part(lab, text.id, b'{"type":"text"}', 1, message_id=call.message_id)


async def _call(lab: Lab, session_id: SessionId, call: Call) -> None:
    await rewrite_call(lab, call, b'{"state":{"type":"levitating"}}', 1)


BREAKS: dict[str, Break] = {"session": _session, "message": _message, "part": _part, "call": _call}


async def _broken(lab: Lab, name: str) -> tuple[SessionId, Claim, Call]:
    """A session with a call that is due, then broken."""
    session_id, claim, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    await BREAKS[name](lab, session_id, call)
    return session_id, claim, call


@pytest.mark.parametrize("name", BREAKS)
async def test_reading_an_unreadable_row_is_a_clear_error(lab: Lab, name: str) -> None:
    session_id, claim, _ = await _broken(lab, name)

    async def read_all() -> None:
        await lab.store.session(session_id)
        await lab.store.messages(session_id)
        await lab.store.calls(session_id)

    with pytest.raises(StoreError, match=f"unreadable {name}"):
        await read_all()
    with pytest.raises(StoreError, match=f"unreadable {name}"):
        await lab.store.start_step(claim, lab.new_step())


@pytest.mark.parametrize("name", BREAKS)
async def test_other_sessions_go_on_beside_an_unreadable_row(lab: Lab, name: str) -> None:
    session_id, _, _ = await _broken(lab, name)
    other, claim, (due,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    assert other in {info.id for info in await lab.store.sessions(PROJECT)}
    assert set(await lab.store.statuses()) == {session_id, other}
    assert {active.session_id for active in await lab.store.active_sessions(POOL)} == {session_id, other}
    results = await asyncio.gather(
        lab.prompt(session_id), lab.prompt(other), lab.prompt(other), return_exceptions=True
    )
    assert [isinstance(result, str) for result in results[1:]] == [True, True]
    lab.clock.advance(1)
    await lab.store.expire()
    assert state_of(await lab.store.call(due.id)) == "Settled"
    await lab.end(claim, await lab.step(claim))


@pytest.mark.parametrize("name", BREAKS)
async def test_expiry_ends_despite_an_unreadable_row(lab: Lab, name: str) -> None:
    await _broken(lab, name)
    await lab.store.expire()
    assert await lab.store.next_due() is None


@pytest.mark.parametrize("name", ["session", "message", "part", "call"])
async def test_the_feed_reports_an_unreadable_row_and_goes_on(lab: Lab, name: str) -> None:
    cursor = await lab.store.cursor()
    session_id, _, _ = await _broken(lab, name)
    other = await lab.session()
    prompt = await lab.prompt(other)
    events = (await lab.store.feed(cursor)).events
    errors = [e for e in events if isinstance(e, SessionError)]
    assert [e.session_id for e in errors] == [session_id]
    assert prompt in {e.info.id for e in events if isinstance(e, MessageUpdated)}


async def test_children_are_listed_without_the_one_that_is_broken(lab: Lab) -> None:
    parent = await lab.session()
    good, bad = await lab.session(parent=parent), await lab.session(parent=parent)
    await rewrite_session(lab, bad, b"[]", 1)
    assert [info.id for info in await lab.store.children(parent)] == [good]


async def test_a_session_with_a_broken_part_in_its_step_cannot_be_claimed(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await rewrite_part(lab, lab.ids.part(), b'{"type":"text"}', 1, message_id=step.id)
    with pytest.raises(StoreError, match="unreadable part"):
        await lab.claim(session_id, BOB, dead=ALICE)
    assert (await lab.store.control(session_id)).owner == ALICE


@pytest.mark.parametrize("version", [0, -1])
async def test_a_row_with_an_impossible_version_is_unreadable(lab: Lab, version: int) -> None:
    session_id = await lab.session()
    await rewrite_session(lab, session_id, b"{}", version)
    with pytest.raises(StoreError, match="unreadable"):
        await lab.store.session(session_id)


async def test_an_unreadable_status_hides_no_other(lab: Lab) -> None:
    odd, other = await lab.session(), await lab.session()
    await lab.prompt(other)
    await rewrite_status(lab, odd, '{"type":"hibernating"}')
    assert set(await lab.store.statuses()) == {other}
    with pytest.raises(StoreError, match="unreadable status"):
        await lab.store.status(odd)
    await lab.prompt(odd)
    assert set(await lab.store.statuses()) == {odd, other}
