"""A session's status is a function of its rows."""

import pytest

from asyncagents.domain.conversation.status import Busy, Idle, Status, WaitingAsync
from asyncagents.domain.event import SessionIdle, SessionStatus
from asyncagents.domain.id import SessionId
from asyncagents.errors import NotFound
from tests.support.store.lab import Lab, completed_result


@pytest.mark.spec("C-06")
async def test_every_change_of_status_is_published_once(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id)
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.start(claim, call)
    await lab.move(claim, call, lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    await lab.store.settle(call.id, completed_result())
    claim = await lab.claim(session_id)
    snapshot = await lab.end(claim, await lab.step(claim))
    await lab.store.rest(claim, snapshot.control.wake_seq, "done")
    published = [e.status for e in lab.events if isinstance(e, SessionStatus)]
    assert [type(status) for status in published] == [Busy, WaitingAsync, Busy, Idle]
    assert len([e for e in lab.events if isinstance(e, SessionIdle)]) == 1


@pytest.mark.spec("C-06")
async def test_a_waiting_session_names_the_call_that_expires_first(lab: Lab) -> None:
    now = lab.clock.now()
    session_id, claim, calls = await lab.start_calls(
        lab.open_state(), lab.open_state(due=now + 9), lab.open_state("wait", due=now + 5), None
    )
    await lab.store.finish_call(claim, calls[3].id, completed_result())
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    expected = WaitingAsync(pending_id=calls[2].id, tool="build", since=now, timeout=now + 5)
    assert await lab.store.status(session_id) == expected


@pytest.mark.spec("C-06")
async def test_all_statuses_can_be_read(lab: Lab) -> None:
    await lab.session()
    ready = await lab.session()
    await lab.prompt(ready)
    running, _, _ = await lab.claim_prompted()
    asking, claim, _, _ = await lab.open_ask()
    await lab.store.park(claim, 1_000)
    waiting, claim, (call,) = await lab.start_calls(lab.open_state())
    await lab.store.park(claim, 1_000)
    expected: dict[SessionId, Status] = {
        ready: Busy(),
        running: Busy(),
        asking: Busy(),
        waiting: WaitingAsync(pending_id=call.id, tool="build", since=lab.clock.now()),
    }
    assert await lab.store.statuses() == expected
    with pytest.raises(NotFound):
        await lab.store.status(SessionId("ses_nobody"))


@pytest.mark.spec("C-06")
async def test_settling_one_of_two_waits_shows_the_other(lab: Lab) -> None:
    now = lab.clock.now()
    session_id, claim, (first, second) = await lab.start_calls(
        lab.open_state(due=now + 1), lab.open_state(due=now + 2)
    )
    await lab.store.park(claim, 1_000)
    await lab.store.settle(first.id, completed_result())
    claim = await lab.claim(session_id)
    await lab.store.park(claim, 1_000)
    status = await lab.store.status(session_id)
    assert isinstance(status, WaitingAsync)
    assert status.pending_id == second.id
    assert status.timeout == now + 2
