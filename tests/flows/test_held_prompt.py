"""How long a blocking prompt is held: while its own tasks work, not while they wait for the outside."""

import asyncio
from pathlib import Path

import pytest

from asyncagents import wait_tool
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.status import Busy, WaitingAsync
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.async_tools import AsyncTools
from asyncagents.errors import Conflict
from asyncagents.llm.scripted import call, say
from tests.support.delegation import (
    RequestScript,
    RequestStep,
    build_gates,
    call_task,
    call_with_id,
    child_session,
    launch_task,
    open_delegation_stage,
    task_named,
    wait_until_quiet,
)
from tests.support.runtime import Stage, answer_of
from tests.support.tool import Gate, build_pending_tool

SHIP = build_pending_tool("ship")
WAIT = call_with_id("asyncagents_output", block=True, timeout=600)
POLL = call_with_id("asyncagents_output")
ASKED: dict[str, list[RequestStep]] = {
    "output": [WAIT],
    "poll": [POLL, POLL, POLL],
    "source": [call_with_id("async_task_result") for _ in range(3)],
}


async def submit(at: Stage, child: SessionId) -> None:
    """Bring the result that a child waits for."""
    tools: AsyncTools = at.runtime.async_tools
    (waiting,) = await tools.waiting_calls(child)
    await tools.submit_result(waiting.id, "shipped")


def told_early(entry: MessageWithParts) -> bool:
    return answer_of(entry).finish == "tool-calls" and not entry.text


@pytest.mark.spec("Z-01", "T-04")
@pytest.mark.parametrize("how", ASKED)
async def test_a_prompt_is_held_while_the_task_that_its_turn_waits_for_works(
    tmp_path: Path, how: str
) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], *ASKED[how], [say("FINAL ANSWER")], [say("more")]],
        "a": [[call("gate")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(WaitingAsync)
        await gate.until_started()
        held = not prompt.done()
        gate.go.set()
        answer = await prompt
        await wait_until_quiet(at.runtime, at.session_id)
    assert held
    assert answer.text == "FINAL ANSWER"


@pytest.mark.spec("Z-01")
@pytest.mark.parametrize("how", ASKED)
async def test_a_prompt_returns_when_the_task_that_its_turn_waits_for_waits_for_the_outside(
    tmp_path: Path, how: str
) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], *ASKED[how], [say("FINAL ANSWER")], [say("more")]],
        "a": [[call("gate")], [call("ship")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, SHIP) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.listener.until_status(WaitingAsync)
        held = not prompt.done()
        gate.go.set()
        answer = await prompt
        status = await at.status()
        await submit(at, await child_session(at, "A"))
        await wait_until_quiet(at.runtime, at.session_id)
        entries = await at.messages()
    assert held
    assert told_early(answer)
    assert isinstance(status, WaitingAsync)
    assert "FINAL ANSWER" in [entry.text for entry in entries]


@pytest.mark.spec("Z-01")
async def test_a_wait_for_a_task_that_already_waits_for_the_outside_holds_no_prompt(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [call("gate")], WAIT, [say("FINAL ANSWER")]],
        "a": [[call("ship")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, SHIP) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.listener.until_status(WaitingAsync)
        gate.go.set()
        answer = await prompt
        await submit(at, await child_session(at, "A"))
        await wait_until_quiet(at.runtime, at.session_id)
    assert told_early(answer)


@pytest.mark.spec("Z-01")
async def test_a_poll_that_waits_for_any_task_is_held_until_all_of_them_wait_for_the_outside(
    tmp_path: Path,
) -> None:
    both = build_gates("left", "right")
    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a"), launch_task("B", "b")],
            POLL,
            POLL,
            POLL,
            [say("ok")],
            [say("ok")],
            [say("ok")],
        ],
        "a": [[call("left")], [call("ship")], [say("A.")]],
        "b": [[call("right")], [call("ship")], [say("B.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in both.values()), SHIP) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        for gate in both.values():
            await gate.until_started()
        await at.listener.until_status(WaitingAsync)
        both["left"].go.set()
        left = await child_session(at, "A")
        await at.runtime.wait(left)
        held = not prompt.done()
        both["right"].go.set()
        answer = await prompt
        for name in ("A", "B"):
            await submit(at, await child_session(at, name))
        await wait_until_quiet(at.runtime, at.session_id)
    assert held
    assert told_early(answer)


@pytest.mark.spec("Z-01")
@pytest.mark.parametrize("how", ["wait", "sync"])
async def test_the_outside_releases_the_prompt_through_every_level_of_the_tree(
    tmp_path: Path, how: str
) -> None:
    gate = Gate("gate")
    child: list[RequestStep] = [[launch_task("B", "b")], WAIT] if how == "wait" else [[call_task("B", "b")]]
    scenes: RequestScript = {
        "go": [[call_task("A", "a")], [say("FINAL ANSWER")]],
        "a": [*child, [say("A.")]],
        "b": [[call("gate")], [call("ship")], [call("gate2")], [say("B.")]],
    }
    second = Gate("gate2")
    async with open_delegation_stage(tmp_path, scenes, gate.tool, second.tool, SHIP) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        if how == "wait":
            await at.listener.until_status(WaitingAsync)
        held = not prompt.done()
        gate.go.set()
        answer = await prompt
        await submit(at, await child_session(at, "B"))
        await second.until_started()
        status = await at.status()
        second.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        entries = await at.messages()
    assert held
    assert told_early(answer)
    assert status == Busy()
    assert entries[-1].text == "FINAL ANSWER"


@pytest.mark.spec("Z-01")
async def test_a_short_timer_holds_a_prompt(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[call("wait", seconds=1)], [say("Awake.")]]}
    async with open_delegation_stage(tmp_path, scenes, wait_tool()) as at:
        answer = await at.prompt("go")
    assert answer.text == "Awake."


@pytest.mark.spec("Z-01")
async def test_a_timer_of_a_minute_lets_a_prompt_return(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[call("wait", seconds=61)], [say("Awake.")]], "up": [[say("Up.")]]}
    async with open_delegation_stage(tmp_path, scenes, wait_tool()) as at:
        answer = await at.prompt("go")
        await at.prompt("up")
    assert told_early(answer)


@pytest.mark.spec("Z-01", "C-06")
@pytest.mark.parametrize("how", ["wait", "sync"])
async def test_the_pending_id_of_a_status_is_found(tmp_path: Path, how: str) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], WAIT, [say("Done.")]]
        if how == "wait"
        else [[call_task("A", "a")], [say("Done.")]],
        "a": [[call("ship")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, SHIP) as at:
        await at.prompt("go")
        status = await at.status()
        assert isinstance(status, WaitingAsync)
        waiting = await at.runtime.async_tools.get(status.pending_id)
        with pytest.raises(Conflict, match="waits for a task"):
            await at.runtime.async_tools.submit_result(status.pending_id, "forged")
        await submit(at, await child_session(at, "A"))
        await wait_until_quiet(at.runtime, at.session_id)
        pending_call = await at.runtime.async_tools.get(status.pending_id)
        task = await task_named(at.runtime, "A")
    assert waiting.status == "waiting"
    assert waiting.session_id == at.session_id
    assert pending_call.status == "completed"
    assert pending_call.result is not None
    assert "A." in pending_call.result.output
    assert task.status == "completed"


@pytest.mark.spec("Z-01")
@pytest.mark.parametrize("how", ["sync", "wait"])
async def test_a_prompt_returns_when_a_task_rests_until_its_own_task_that_waits_for_the_outside(
    tmp_path: Path, how: str
) -> None:
    gate = Gate("gate")
    own: list[RequestStep] = [[call_task("A", "a")]] if how == "sync" else [[launch_task("A", "a")], WAIT]
    scenes: RequestScript = {
        "go": [*own, [say("FINAL ANSWER")], [say("more")]],
        "a": [[launch_task("B", "b")], [say("Launched.")], [say("A.")]],
        "b": [[call("gate")], [call("ship")], [say("B.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, SHIP) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.listener.until_text("Launched.")
        held = not prompt.done()
        gate.go.set()
        answer = await prompt
        await submit(at, await child_session(at, "B"))
        await wait_until_quiet(at.runtime, at.session_id)
        entries = await at.messages()
    assert held
    assert told_early(answer)
    assert "FINAL ANSWER" in [entry.text for entry in entries]
