"""A row that fails whenever it is expired is named and put off; all others expire."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.errors import StuckRow
from tests.support.store.lab import Lab, state_of
from tests.support.store.row import rewrite_call, rewrite_session


async def stuck_call(lab: Lab) -> tuple[SessionId, Call]:
    """A call that is due, was shown to the model, and whose session names no agent: its end fails."""
    session_id, _, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    shown = replace(call, shown_pending=True)
    await rewrite_call(lab, shown, encode(shown), 1)
    info = replace(await lab.store.session(session_id), agent=None, model=None)
    await rewrite_session(lab, session_id, encode(info), 1)
    return session_id, shown


@pytest.mark.spec("X-11")
async def test_a_stuck_row_is_named_in_the_error_and_nothing_expires(lab: Lab) -> None:
    _, stuck = await stuck_call(lab)
    lab.clock.advance(1)
    before = await lab.read_everything()
    with pytest.raises(StuckRow) as raised:
        await lab.store.expire()
    assert raised.value.kind == "call"
    assert raised.value.id == stuck.id
    assert isinstance(raised.value.__cause__, AssertionError)
    assert await lab.read_everything() == before


@pytest.mark.spec("X-11")
async def test_a_row_that_is_put_off_lets_the_others_expire_and_is_due_again_later(lab: Lab) -> None:
    _, stuck = await stuck_call(lab)
    _, _, (due,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    lab.clock.advance(1)
    later = lab.clock.now() + 1_000
    await lab.store.due.put_off("call", stuck.id, later)

    assert await lab.store.expire() == 1
    assert state_of(await lab.store.call(due.id)) == "Settled"
    assert await lab.store.next_due() == later
    assert (await lab.store.call(stuck.id)).open == stuck.open

    lab.clock.advance(1_000)
    with pytest.raises(StuckRow, match=stuck.id):
        await lab.store.expire()


async def test_a_settled_call_is_not_put_off(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    lab.clock.advance(1)
    await lab.store.expire()
    before = await lab.store.call(call.id)
    await lab.store.due.put_off("call", call.id, lab.clock.now() + 1_000)
    assert await lab.store.call(call.id) == before
    assert await lab.store.next_due() is None
