"""Blocking callers: when a park answers them, and with which step."""

import pytest

from asyncagents.domain.call.call import Call
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Claim
from tests.support.store.lab import Lab, completed_result
from tests.support.store.task import Parent, open_middle, open_parent


async def prompt_of(lab: Lab, session_id: SessionId) -> MessageId:
    return MessageId((await lab.store.messages(session_id))[0].info.id)


async def answer(lab: Lab, message_id: MessageId) -> MessageId | None:
    return (await lab.store.input(message_id)).answer_id


async def park(lab: Lab, claim: Claim) -> None:
    control = await lab.store.control(claim.session_id)
    assert await lab.store.park(claim, control.wake_seq)


async def park_outside(lab: Lab, child: SessionId) -> Call:
    """A child calls an async tool, and parks."""
    claim = await lab.claim(child)
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    call = await lab.move(claim, call, lab.open_state())
    await park(lab, claim)
    return call


async def watching(lab: Lab, *, tasks: int = 1, any: bool = False) -> tuple[Parent, list[SessionId], Call]:
    """A parent that waits for the first of its tasks, or for any."""
    at = await open_parent(lab, tasks + 1, tool="asyncagents_output")
    children = [await at.launch(call) for call in at.calls[:tasks]]
    await at.watch(at.calls[-1], children[0], any=any)
    return at, children, at.calls[-1]


@pytest.mark.spec("Z-01")
async def test_a_task_that_waits_externally_wakes_its_parent_which_then_answers(lab: Lab) -> None:
    at, (child,), wait = await watching(lab)
    await park(lab, at.lease)
    prompt = await prompt_of(lab, at.id)
    assert await answer(lab, prompt) is None
    await park_outside(lab, child)
    assert (await lab.store.control(at.id)).state == "ready"
    await park(lab, await lab.claim(at.id))
    assert await answer(lab, prompt) == wait.message_id


@pytest.mark.spec("Z-01")
async def test_a_task_that_works_again_clears_the_mark_of_the_waiting_call(lab: Lab) -> None:
    at, (child,), wait = await watching(lab)
    call = await park_outside(lab, child)
    await park(lab, at.lease)
    marked = (await lab.store.call(wait.id)).open
    await lab.store.settle(call.id, completed_result())
    await lab.claim(child)
    unmarked = (await lab.store.call(wait.id)).open
    assert marked is not None
    assert unmarked is not None
    assert marked.child_waits is True
    assert unmarked.child_waits is False


@pytest.mark.spec("Z-01")
async def test_a_wait_for_any_task_answers_when_all_tasks_wait_externally(lab: Lab) -> None:
    at, children, wait = await watching(lab, tasks=3, any=True)
    await park(lab, at.lease)
    prompt = await prompt_of(lab, at.id)
    states = []
    for child in children:
        await park_outside(lab, child)
        states.append((await lab.store.control(at.id)).state)
    await park(lab, await lab.claim(at.id))
    assert states == ["idle", "idle", "ready"]
    assert await answer(lab, prompt) == wait.message_id


@pytest.mark.spec("Z-01")
async def test_an_external_wait_of_a_grandchild_is_passed_on_to_the_root(lab: Lab) -> None:
    at = await open_parent(lab)
    child = await at.launch(at.calls[0], background=False)
    await park(lab, at.lease)
    below = await open_middle(lab, child, 2)
    grandchild = await below.launch(below.calls[0])
    await below.watch(below.calls[1], grandchild)
    await park(lab, below.lease)
    prompt = await prompt_of(lab, at.id)
    held = await answer(lab, prompt)
    call = await park_outside(lab, grandchild)
    await park(lab, await lab.claim(child))
    await park(lab, await lab.claim(at.id))
    assert held is None
    assert await answer(lab, prompt) == at.calls[0].message_id
    await lab.store.settle(call.id, completed_result())
    await lab.claim(grandchild)
    held_again = (await lab.store.call(at.calls[0].id)).open
    assert held_again is not None
    assert not held_again.child_waits


@pytest.mark.spec("Z-02")
async def test_a_final_step_that_leaves_a_prompt_unread_answers_the_one_before(lab: Lab) -> None:
    session_id, first, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    second = await lab.prompt(session_id)
    await lab.end(claim, step)
    assert await answer(lab, first) == step.id
    assert await answer(lab, second) is None


@pytest.mark.spec("Z-02")
async def test_a_prompt_after_the_final_step_does_not_change_the_earlier_answer(lab: Lab) -> None:
    session_id, first, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.end(claim, step)
    second = await lab.prompt(session_id)
    before = await answer(lab, first)
    await lab.step(claim)
    assert before is None
    assert await answer(lab, first) == step.id
    assert await answer(lab, second) is None


@pytest.mark.spec("Z-02")
async def test_input_of_the_runtime_postpones_the_answer_to_a_prompt(lab: Lab) -> None:
    session_id, first, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.prompt(session_id, source="system")
    await lab.prompt(session_id)
    await lab.end(claim, step)
    await lab.step(claim)
    assert await answer(lab, first) is None


@pytest.mark.spec("Z-02")
async def test_a_step_with_tool_calls_answers_no_prompt(lab: Lab) -> None:
    session_id, first, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.prompt(session_id)
    await lab.end(claim, step, lab.call(step))
    assert await answer(lab, first) is None


@pytest.mark.spec("Z-02")
async def test_a_final_step_answers_though_a_task_works_again_for_an_open_call(lab: Lab) -> None:
    at = await open_parent(lab)
    child = await at.launch(at.calls[0], background=False)
    await park(lab, at.lease)
    call = await park_outside(lab, child)
    await park(lab, await lab.claim(at.id))
    prompt = await lab.prompt(at.id, "and now?")
    claim = await lab.claim(at.id)
    step = await lab.step(claim)
    await lab.store.settle(call.id, completed_result())
    await lab.claim(child)
    await lab.end(claim, step)
    await park(lab, claim)
    assert await answer(lab, prompt) == step.id
