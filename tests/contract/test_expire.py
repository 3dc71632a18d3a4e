"""What is due is settled by the store's clock, once."""

import pytest

from asyncagents.domain.call.call import Completed, Failed, Once
from asyncagents.domain.event import PermissionReplied
from asyncagents.errors import AlreadySettled, Conflict
from tests.support.store.lab import Lab, ask_id, completed_result, result_of, state_of


@pytest.mark.spec("X-11")
async def test_a_due_call_is_settled_once_with_its_due_result(lab: Lab) -> None:
    now = lab.clock.now()
    session_id, claim, (soon, later, never) = await lab.start_calls(
        lab.open_state(due=now + 10, on_due=Completed("The wait is over.")),
        lab.open_state(due=now + 20),
        lab.open_state(),
    )
    assert await lab.store.next_due() == now + 10
    assert await lab.store.expire() == 0
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    lab.commits.clear()

    lab.clock.advance(10)
    assert await lab.store.expire() == 1
    assert result_of(await lab.store.call(soon.id)) == Completed("The wait is over.")
    assert state_of(await lab.store.call(later.id)) == state_of(await lab.store.call(never.id)) == "Open"
    assert lab.woken == [session_id]
    before = await lab.read_everything()
    assert await lab.store.expire() == 0
    assert await lab.read_everything() == before

    assert await lab.store.next_due() == now + 20
    lab.clock.advance(1_000)
    assert await lab.store.expire() == 1
    assert await lab.store.next_due() is None


async def test_a_result_after_the_expiry_is_a_conflict(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    await lab.store.expire()
    with pytest.raises(AlreadySettled, match="timed out"):
        await lab.store.settle(call.id, completed_result())
    assert result_of(await lab.store.call(call.id)) == Failed("Tool execution timed out")


async def test_a_result_before_the_expiry_stays(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now()))
    await lab.store.settle(call.id, completed_result())
    assert await lab.store.expire() == 0
    assert result_of(await lab.store.call(call.id)) == completed_result()


async def test_expiry_goes_in_bounded_pieces_the_oldest_first(lab: Lab) -> None:
    now = lab.clock.now()
    _, _, calls = await lab.start_calls(*(lab.open_state(due=now + n) for n in (3, 1, 2)))
    lab.clock.advance(5)
    assert await lab.store.expire(limit=2) == 2
    assert [state_of(await lab.store.call(c.id)) for c in calls] == ["Open", "Settled", "Settled"]
    assert await lab.store.expire(limit=2) == 1


async def test_an_expired_ask_is_published_as_closed_and_takes_no_answer(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    call = await lab.move(claim, call, lab.ask(session_id, due=lab.clock.now()))
    lab.commits.clear()
    await lab.store.expire()
    assert [e.request_id for e in lab.events if isinstance(e, PermissionReplied)] == [ask_id(call)]
    with pytest.raises(Conflict):
        await lab.store.answer(ask_id(call), Once())


async def test_an_expiry_that_blocks_settles_each_sibling_once(lab: Lab) -> None:
    session_id, claim, (one, other) = await lab.start_calls(None, None)
    now = lab.clock.now()
    refused = Failed("nobody answered", blocks=True)
    await lab.move(claim, one, lab.ask(session_id, due=now, on_due=refused))
    other = await lab.move(claim, other, lab.ask(session_id, due=now + 1, on_due=Failed("too late")))
    lab.clock.advance(1)
    lab.commits.clear()
    await lab.store.expire()
    first = result_of(await lab.store.call(other.id))
    assert first != Failed("too late")
    closed = [e.request_id for e in lab.events if isinstance(e, PermissionReplied)]
    assert sorted(closed) == sorted(set(closed))
    assert len(closed) == 2
