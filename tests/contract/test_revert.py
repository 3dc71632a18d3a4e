"""Undo in the rows: the mark, what ends with it, what goes with the next input, and what stays."""

import pytest

from asyncagents.domain.call.call import Completed, Failed, Settled
from asyncagents.domain.conversation.file_changes import StepFileChanges
from asyncagents.domain.conversation.part import PatchPart, StepFinishPart, StepStartPart
from asyncagents.domain.conversation.session import Revert, Tokens
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import MessageRemoved
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import AlreadySettled, ClaimLost, SessionBusy
from asyncagents.store.verb.revert import UNDONE
from tests.support.store.lab import BOB, Lab


async def answered(lab: Lab) -> tuple[SessionId, MessageId]:
    """A session that rests after one prompt and its answer."""
    session_id, asked, claim = await lab.claim_prompted()
    await lab.end(claim, await lab.step(claim))
    await lab.store.rest(claim, 10**6, "done")
    return session_id, asked


def mark(message_id: MessageId, **more: str) -> Revert:
    return Revert(message_id=message_id, **more)  # type: ignore[arg-type]


@pytest.mark.spec("X-01")
async def test_marking_messages_undone_removes_nothing_and_can_be_unmarked(lab: Lab) -> None:
    session_id, asked = await answered(lab)
    before = await lab.store.messages(session_id)
    marked = await lab.store.reverts.mark_undone(session_id, mark(asked))
    assert marked.info.revert is not None
    assert marked.info.revert.through == before[-1].info.id
    assert await lab.store.messages(session_id) == before
    info = await lab.store.reverts.unmark(session_id)
    assert info.revert is None
    assert await lab.store.reverts.unmark(session_id) == info


@pytest.mark.spec("X-01")
async def test_the_next_input_removes_undone_messages_and_keeps_their_input_rows(lab: Lab) -> None:
    session_id, asked = await answered(lab)
    gone = [entry.info.id for entry in await lab.store.messages(session_id)]
    await lab.store.reverts.mark_undone(session_id, mark(asked))
    lab.commits.clear()
    new = await lab.prompt(session_id, "again")
    assert [event.message_id for event in lab.events if isinstance(event, MessageRemoved)] == gone
    (left,) = await lab.store.messages(session_id)
    assert left.info.id == new
    assert (await lab.store.input(asked)).state == "promoted"
    assert (await lab.store.session(session_id)).revert is None


@pytest.mark.spec("X-01")
async def test_input_during_a_file_restore_is_admitted_and_removes_nothing_yet(lab: Lab) -> None:
    session_id, asked = await answered(lab)
    await lab.store.reverts.mark_undone(session_id, mark(asked, snapshot="abc"))
    new = await lab.prompt(session_id, "again")
    assert len(await lab.store.messages(session_id)) == 3
    claim = await lab.claim(session_id)
    await lab.store.reverts.drop_undone(claim)
    (left,) = await lab.store.messages(session_id)
    assert left.info.id == new
    started = await lab.step(claim)
    assert [entry.info.id for entry in started.started.tail] == [new]


@pytest.mark.spec("X-01")
async def test_an_undone_call_is_settled_and_its_turn_ends(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    await lab.store.park(claim, 10**6)
    assert isinstance(await lab.store.status(session_id), WaitingAsync)
    (asked, *_) = await lab.store.messages(session_id)
    await lab.store.reverts.mark_undone(session_id, mark(asked.info.id))
    assert await lab.store.status(session_id) == Idle()
    state = (await lab.store.call(call.id)).state
    assert isinstance(state, Settled)
    assert state.result == Failed(UNDONE)
    assert not (await lab.store.control(session_id)).in_turn
    with pytest.raises(AlreadySettled):
        await lab.store.settle(call.id, Completed("late"))


@pytest.mark.spec("X-01")
async def test_a_session_that_runs_or_asks_cannot_be_undone(lab: Lab) -> None:
    session_id, asked, claim = await lab.claim_prompted()
    with pytest.raises(SessionBusy):
        await lab.store.reverts.plan_undo(session_id, asked)
    with pytest.raises(SessionBusy):
        await lab.store.reverts.mark_undone(session_id, mark(asked))
    other, claim, _call, _ = await lab.open_ask()
    await lab.store.park(claim, 10**6)
    (said, *_) = await lab.store.messages(other)
    with pytest.raises(SessionBusy):
        await lab.store.reverts.mark_undone(other, mark(said.info.id))


@pytest.mark.spec("X-01")
async def test_snapshots_of_a_step_are_stored_once_and_only_under_its_claim(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    finish = StepFinishPart(
        id=lab.ids.part(),
        session_id=session_id,
        message_id=call.message_id,
        reason="tool-calls",
        cost=0,
        tokens=Tokens.zero(),
    )
    await lab.write(claim, finish)
    changed = StepFileChanges(
        message_id=call.message_id, before="a1", after="b2", files=("/p/x",), part_id=lab.ids.part()
    )
    await lab.store.reverts.save_snapshot_after(
        claim, changed
    )  # nothing was taken before: there is nothing to compare
    await lab.store.reverts.save_snapshot_before(claim, call.message_id, "a1")
    await lab.store.reverts.save_snapshot_after(claim, changed)
    other = StepFileChanges(
        message_id=call.message_id, before="a1", after="c3", files=("/p/y",), part_id=lab.ids.part()
    )
    await lab.store.reverts.save_snapshot_after(claim, other)
    parts = (await lab.store.message(call.message_id)).parts
    found = [part.snapshot for part in parts if isinstance(part, StepStartPart | StepFinishPart)]
    (patch,) = [part for part in parts if isinstance(part, PatchPart)]
    assert found == ["a1", "b2"]
    assert patch.hash == "a1"
    assert patch.files == ("/p/x",)
    await lab.claim(session_id, BOB, dead=(await lab.store.control(session_id)).owner)
    with pytest.raises(ClaimLost):
        await lab.store.reverts.save_snapshot_before(claim, call.message_id, "d4")
