"""A command that a person runs: kept with its call in one transaction where a session rests, once per key."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import ABORTED, Completed, Failed, Requested, Running
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import MessageUpdated, PromptAnswered
from asyncagents.domain.fact import NewShell, Settle
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput, NotFound, SessionBusy
from tests.support.store.lab import Lab


def a_shell(lab: Lab, session_id: SessionId, *, key: str = "shell") -> NewShell:
    said = replace(lab.input(session_id, "I ran this", key=key), source="system")
    return NewShell(said, "make", lab.ids.message())


@pytest.mark.spec("X-01")
async def test_a_shell_command_is_a_turn_with_one_requested_call(lab: Lab) -> None:
    session_id = await lab.session()
    new = a_shell(lab, session_id)
    admitted = await lab.store.actions.admit_shell(new)
    assert admitted.new
    assert lab.woken == [session_id]
    assert await lab.store.status(session_id) == Busy()
    claim = await lab.claim(session_id)
    snapshot = await lab.store.snapshot(claim)
    (call,) = snapshot.calls
    assert call.tool == "bash"
    assert call.input == {"command": "make"}
    assert call.effect == "once"
    assert call.is_run_by_person is True
    assert call.state == Requested()
    assert snapshot.control.in_turn
    assert snapshot.queued == 0
    assert snapshot.control.positions == 2
    assert (await lab.store.session(session_id)).model is None

    await lab.move(claim, call, Running(claim.fence))
    await lab.store.finish_call(claim, call.id, Completed("made"))
    lab.commits.clear()
    after = await lab.store.snapshot(claim)
    assert after.ended_person_run
    assert await lab.store.rest(claim, after.control.wake_seq, "ran")

    said, step = await lab.store.messages(session_id)
    assert isinstance(step.info, AssistantMessage)
    assert step.info.id == new.message_id
    assert step.info.parent_id == said.info.id
    assert step.info.finish is None
    assert step.info.error is None
    assert bool(step.info.time.completed) is True
    (part,) = step.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    told = [event for event in lab.events if isinstance(event, PromptAnswered | MessageUpdated)]
    assert [type(event) for event in told] == [MessageUpdated, PromptAnswered]
    assert (await lab.store.input(said.info.id)).answer_id == step.info.id
    assert await lab.store.status(session_id) == Idle()


@pytest.mark.spec("X-01")
async def test_the_same_key_again_changes_nothing(lab: Lab) -> None:
    session_id = await lab.session()
    first = await lab.store.actions.admit_shell(a_shell(lab, session_id))
    before = await lab.read_everything()
    again = await lab.store.actions.admit_shell(a_shell(lab, session_id))
    assert again.message_id == first.message_id
    assert again.new is False
    assert await lab.read_everything() == before


@pytest.mark.spec("X-01")
async def test_a_busy_session_refuses_a_shell_command_and_stores_nothing(lab: Lab) -> None:
    queued, *_ = await lab.claim_prompted()
    waiting, waits, _ = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(waits)
    assert await lab.store.park(waits, snapshot.control.wake_seq)
    ran = await lab.session()
    await lab.store.actions.admit_shell(a_shell(lab, ran))
    before = await lab.read_everything()
    for session_id in (queued, waiting, ran):
        with pytest.raises(SessionBusy):
            await lab.store.actions.admit_shell(a_shell(lab, session_id, key="other"))
    with pytest.raises(NotFound):
        await lab.store.actions.admit_shell(a_shell(lab, SessionId("ses_none")))
    assert await lab.read_everything() == before


@pytest.mark.spec("X-01")
async def test_input_during_a_shell_command_begins_its_own_turn(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.store.actions.admit_shell(a_shell(lab, session_id))
    claim = await lab.claim(session_id)
    (call,) = (await lab.store.snapshot(claim)).calls
    await lab.move(claim, call, Running(claim.fence))
    prompt = await lab.prompt(session_id)
    await lab.store.finish_call(claim, call.id, Completed("made"))
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "ran")
    control = await lab.store.control(session_id)
    assert control.state == "ready"
    assert not control.in_turn
    assert (await lab.store.input(prompt)).answer_id is None


@pytest.mark.spec("X-01")
async def test_output_of_an_aborted_shell_command_is_kept(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.store.actions.admit_shell(a_shell(lab, session_id))
    claim = await lab.claim(session_id)
    (call,) = (await lab.store.snapshot(claim)).calls
    await lab.move(claim, call, Running(claim.fence))
    await lab.store.cancel(session_id)
    snapshot = await lab.store.snapshot(claim)
    words = Settle(call.id, Failed(ABORTED, {"output": "half"}))
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "aborted", (words,))
    (part,) = (await lab.store.messages(session_id))[1].parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolFailed)
    assert part.state.error == ABORTED
    assert part.state.metadata == {"output": "half"}
    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert not control.in_turn


@pytest.mark.spec("X-01")
async def test_a_shell_command_with_an_older_message_id_is_refused(lab: Lab) -> None:
    session_id = await lab.session()
    old = a_shell(lab, session_id)
    message = replace(old.prompt.message, id="msg_000000000001AAAAAAAAAAAAAA")
    await lab.store.actions.admit_shell(a_shell(lab, session_id, key="before"))
    claim = await lab.claim(session_id)
    (call,) = (await lab.store.snapshot(claim)).calls
    await lab.store.finish_call(claim, call.id, Failed("no"))
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "ran")
    with pytest.raises(InvalidInput, match="older than the last message"):
        await lab.store.actions.admit_shell(
            replace(old, prompt=replace(old.prompt, message=message, named=True))
        )
