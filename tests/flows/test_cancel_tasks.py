"""Tasks that are ended: by people, by whoever launched them, with their parent; and who is told of it."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.conversation.failure import MessageAbortedError
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import TaskCancelled, TaskCleared, TaskCompleted
from asyncagents.errors import AlreadySettled, NotFound
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, say
from tests.support.delegation import (
    RequestScript,
    build_gates,
    call_task,
    call_with_id,
    child_session,
    find_notices,
    hidden_text,
    launch_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_named,
    visible_texts,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage, answer_of
from tests.support.tool import Gate, build_pending_tool

BASE: RequestScript = {
    "go": [[launch_task("A", "a")], [say("Off.")], [say("I saw.")], [say("I saw more.")]],
    "a": [[call("gate")], [say("never")]],
    "next": [[say("Next.")]],
}


def own(at: Stage) -> list[ChatRequest]:
    return [request for request in at.model.requests if request.messages[0] == UserTurn("go")]


@pytest.mark.spec("T-05", "T-12", "T-03")
async def test_a_task_cancelled_by_a_person_notifies_and_wakes_its_parent(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, BASE, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        assert await at.runtime.tasks.cancel(await child_session(at, "A"))
        await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        task, entries = await task_named(at.runtime, "A"), await at.messages()
        children = await at.runtime.messages(task.session_id)
    (notice,) = find_notices(entries)
    assert visible_texts(notice)[0].startswith('⊘ **Agent "A" cancelled after ')
    assert "the user stopped it" in hidden_text(notice)
    assert entries[-1].text == "I saw."
    assert task.status == "cancelled"
    assert task.ended_by == "user"
    assert task.result is None
    assert task.completed_at is not None
    assert isinstance(answer_of(children[-1]).error, MessageAbortedError)
    assert gate.ended.is_set()


@pytest.mark.spec("T-05", "T-15")
async def test_a_parent_that_cancels_a_task_gets_no_notice(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "stop": [call_with_id("asyncagents_cancel"), [say("Stopped.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        answer = await at.prompt("stop")
        await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        task, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert answer.text == "Stopped."
    assert told == []
    assert task.status == "cancelled"
    assert task.ended_by == "parent"
    assert request_outputs(own(at)[-1])[-1].startswith("Cancelled 1 background task:")


@pytest.mark.spec("T-05", "T-07")
async def test_a_batch_is_cancelled_as_one(tmp_path: Path) -> None:
    both = build_gates("left", "right")

    def stop(request: ChatRequest) -> ScriptStep:
        batch = request_outputs(request)[0].partition("batch: ")[2].splitlines()[0]
        return [call("asyncagents_cancel", batch=batch), call("asyncagents_cancel", batch="bat_x")]

    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a"), launch_task("B", "b"), launch_task("C", "c")],
            [say("Off.")],
            [say("C ended.")],
        ],
        "a": [[call("left")], [say("never")]],
        "b": [[call("right")], [say("never")]],
        "c": [[say("C.")]],
        "stop": [stop, [say("Stopped.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in both.values())) as at:
        await at.prompt("go")
        for gate in both.values():
            await gate.until_started()
        await wait_for_task_end(at, "C", TaskCompleted)
        await at.runtime.wait(at.session_id)
        await at.prompt("stop")
        await wait_until_quiet(at.runtime, at.session_id)
        tasks, told = await at.runtime.tasks.list(at.session_id), await read_notices(at)
    assert [task.status for task in tasks] == ["cancelled", "cancelled", "completed"]
    done, wrong = request_outputs(own(at)[-1])[-2:]
    assert "Cancelled 2 background tasks:" in done
    assert "Ended before, and left as they are:" in done
    assert "You have no batch" in wrong
    assert [visible_texts(each)[0][0] for each in told] == ["✓"]


@pytest.mark.spec("T-05")
async def test_a_person_cancels_a_batch(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "go": [[launch_task("A", "a"), launch_task("B", "b")], *BASE["go"][1:]]}
    scenes = {**scenes, "b": [[call("gate")], [say("never")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        batch = (await task_named(at.runtime, "A")).batch_id
        assert await at.runtime.tasks.cancel_batch(batch)
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.batch(batch)
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
        with pytest.raises(NotFound):
            await at.runtime.tasks.cancel_batch("bat_x")
    assert [(task.status, task.ended_by) for task in tasks] == [("cancelled", "user")] * 2
    assert len(told) == 2


@pytest.mark.spec("T-05", "T-03")
async def test_a_cancel_of_an_ended_task_changes_nothing(tmp_path: Path) -> None:
    scenes: RequestScript = {
        **BASE,
        "a": [[say("A.")]],
        "stop": [call_with_id("asyncagents_cancel"), [say("Ok.")]],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        before = await task_named(at.runtime, "A")
        assert await at.runtime.tasks.cancel(before.session_id)
        await at.prompt("stop")
        await wait_until_quiet(at.runtime, at.session_id)
        after, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert before == after
    assert len(told) == 1


@pytest.mark.spec("D-06", "T-15")
async def test_an_abort_cancels_tasks_and_the_notice_comes_with_the_next_turn(
    tmp_path: Path,
) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, BASE, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        assert await at.abort()
        await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        asked, before = len(own(at)), await read_notices(at)
        status = await at.status()
        answer = await at.prompt("next")
        (notice,) = await read_notices(at)
    assert asked == 2
    assert before == []
    assert status == Idle()
    assert visible_texts(notice)[0].startswith('⊘ **Agent "A" cancelled')
    assert answer.text == "Next."
    assert len(own(at)) == 3


@pytest.mark.spec("D-06")
async def test_an_abort_reaches_sync_and_background_tasks_to_any_depth(tmp_path: Path) -> None:
    deep = build_gates("left", "right")
    scenes: RequestScript = {
        "go": [[launch_task("B", "b"), call_task("S", "s")], [say("never")]],
        "s": [[call_task("SS", "ss")], [say("never")]],
        "ss": [[call("left")], [say("never")]],
        "b": [[launch_task("BB", "bb")], [say("I wait.")], [say("never")]],
        "bb": [[call("right")], [say("never")]],
        "next": [[say("Next.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in deep.values())) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        for gate in deep.values():
            await gate.until_started()
        assert await at.abort()
        aborted = answer_of(await prompt)
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.list(at.session_id)
        statuses = await at.runtime.statuses()
        asked = len(at.model.requests)
        states = await at.states()
        await at.prompt("next")
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
        inner = find_notices(await at.runtime.messages(await child_session(at, "B")))
    assert isinstance(aborted.error, MessageAbortedError)
    assert {task.description: (task.status, task.ended_by) for task in tasks} == dict.fromkeys(
        ("B", "S", "SS", "BB"), ("cancelled", "user")
    )
    assert statuses == {}
    assert isinstance(states[1], ToolFailed)
    assert len(at.model.requests) == asked + 1
    assert [text.split('"')[1] for text in told] == ["B"]
    assert inner == []


@pytest.mark.spec("D-06")
async def test_an_abort_of_the_turn_spares_background_tasks(tmp_path: Path) -> None:
    both = build_gates("left", "right")
    scenes: RequestScript = {
        "go": [[launch_task("B", "b"), call_task("S", "s")], [say("Told of B.")]],
        "s": [[call("left")], [say("never")]],
        "b": [[call("right")], [say("B is 2.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in both.values())) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        for gate in both.values():
            await gate.until_started()
        assert await at.runtime.abort(at.session_id, scope="turn")
        await prompt
        spared = await task_named(at.runtime, "B")
        ended = await task_named(at.runtime, "S")
        both["right"].go.set()
        await wait_for_task_end(at, "B", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
        last = (await at.messages())[-1].text
    assert spared.status == "running"
    assert ended.status == "cancelled"
    assert [text.split('"')[1] for text in told] == ["B"]
    assert last == "Told of B."


@pytest.mark.spec("D-06", "T-12")
async def test_a_cancel_covers_nested_tasks_and_the_parent_gets_one_notice(
    tmp_path: Path,
) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **BASE,
        "a": [[launch_task("G", "g")], [say("I wait.")], [say("never")]],
        "g": [[call("gate")], [say("never")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "A")
        assert await at.runtime.tasks.cancel(child)
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.list(at.session_id)
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
        inner = find_notices(await at.runtime.messages(child))
    assert [task.status for task in tasks] == ["cancelled"] * 2
    assert [text.split('"')[1] for text in told] == ["A"]
    assert inner == []


@pytest.mark.spec("D-06", "T-05")
async def test_a_sync_task_that_a_person_cancels_fails_its_call_and_the_parent_goes_on(
    tmp_path: Path,
) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "go": [[call_task("A", "a")], [say("A pity.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        assert await at.runtime.tasks.cancel(await child_session(at, "A"))
        answer = await prompt
        (state,) = await at.states()
        told = await read_notices(at)
    assert isinstance(state, ToolFailed)
    assert "MessageAbortedError" in state.error
    assert "ended_by: user" in state.error
    assert answer.text == "A pity."
    assert told == []


@pytest.mark.spec("D-06", "T-14")
async def test_deleting_a_session_deletes_its_tasks_and_their_sessions(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, BASE, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "A")
        await at.runtime.delete_session(at.session_id)
        await at.listener.until(TaskCleared)
        async with asyncio.timeout(20):
            await gate.ended.wait()
        tasks = await at.runtime.tasks.list()
        for gone in (child, at.session_id):
            with pytest.raises(NotFound):
                await at.runtime.session(gone)
    assert tasks == ()


@pytest.mark.spec("T-05", "T-15")
async def test_deleting_a_childs_session_cancels_its_task_and_notifies_the_parent(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, BASE, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "A")
        await at.runtime.delete_session(child)
        await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        task = await at.runtime.tasks.get(child)
        (notice,) = await read_notices(at)
    assert task.status == "cancelled"
    assert task.ended_by == "user"
    assert visible_texts(notice)[0].startswith('⊘ **Agent "A"')


@pytest.mark.spec("T-05")
async def test_nothing_is_launched_in_a_turn_that_was_cancelled(tmp_path: Path) -> None:
    """The cancel comes while the launching tool has not been committed."""
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "go": [[call("gate")], [launch_task("A", "a")], [say("never")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        gate.go.set()
        assert await at.abort()
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.list(live=True)
    assert tasks == ()


@pytest.mark.spec("T-05")
async def test_cancel_needs_either_a_task_or_a_batch(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [
            [call("asyncagents_cancel"), call("asyncagents_cancel", task_id="ses_x", batch="b")],
            [call("asyncagents_cancel", task_id="ses_x")],
            [say("Ok.")],
        ]
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        states = await at.states()
    assert not any(isinstance(state, ToolCompleted) for state in states)
    errors = [state.error for state in states if isinstance(state, ToolFailed)]
    assert ["Say which" in error for error in errors] == [True, True, False]
    assert "You have no task" in errors[2]


@pytest.mark.spec("D-06")
async def test_deleting_the_session_of_a_sync_child_fails_its_call(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "go": [[call_task("A", "a")], [say("A pity.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.runtime.delete_session(await child_session(at, "A"))
        answer = await prompt
        (state,) = await at.states()
    assert isinstance(state, ToolFailed)
    assert ("deleted" in state.error) is True
    assert answer.text == "A pity."


@pytest.mark.spec("T-04", "T-15")
async def test_a_call_that_waits_for_a_task_returns_its_cancel_instead_of_a_notice(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **BASE,
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=600),
            [say("I see.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_status(WaitingAsync)
        await gate.until_started()
        await at.runtime.tasks.cancel(await child_session(at, "A"))
        await wait_until_quiet(at.runtime, at.session_id)
        last, told = (await at.messages())[-1].text, await read_notices(at)
    assert last == "I see."
    assert told == []
    assert "status: cancelled" in request_outputs(own(at)[-1])[-1]


@pytest.mark.spec("D-06", "C-08")
async def test_a_result_that_comes_after_the_abort_of_a_child_is_too_late(tmp_path: Path) -> None:
    scenes: RequestScript = {
        **BASE,
        "go": [[call_task("A", "a")], [say("never")]],
        "a": [[call("job")], [say("never")]],
    }
    async with open_delegation_stage(tmp_path, scenes, build_pending_tool("job")) as at:
        await at.prompt("go")
        (waiting,) = await at.runtime.open_calls(await child_session(at, "A"))
        assert await at.abort()
        with pytest.raises(AlreadySettled):
            await at.runtime.complete(waiting.id, "7")
        task = await task_named(at.runtime, "A")
        answer = await at.prompt("next")
    assert task.status == "cancelled"
    assert answer.text == "Next."
