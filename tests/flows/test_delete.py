"""Deleting a session: whatever works for it stops, who waits hears of it, and the rest goes on."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.event import Event, PermissionAsked, SessionDeleted
from asyncagents.errors import NotFound
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from tests.support.runtime import open_runtime, open_stage
from tests.support.tool import CAREFUL, Gate, build_pending_tool
from tests.support.wait import PATIENCE, wait_until

SCRIPT = {
    "stream": [[say("I beg"), pause(3600)]],
    "tool": [[call("gate")]],
    "ask": [[call("careful", text="a")]],
    "wait": [[call("deploy")]],
}


async def test_a_session_that_runs_a_tool_can_be_deleted(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("tool"))
        await gate.until_started()
        await at.runtime.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await prompt
        async with asyncio.timeout(PATIENCE):
            await gate.ended.wait()
        with pytest.raises(NotFound):
            await at.messages()
        assert await at.runtime.sessions(tmp_path) == ()


async def test_a_session_that_streams_can_be_deleted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT) as at:
        prompt = asyncio.ensure_future(at.prompt("stream"))
        await at.listener.until_text("I beg")
        await at.runtime.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await prompt
        await at.listener.until(SessionDeleted)
        await wait_until(lambda: not at.runtime.live)  # no event tells that a run is gone


async def test_a_session_that_asks_can_be_deleted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("ask"))
        ask_id = (await at.listener.until(PermissionAsked)).request.id
        await at.runtime.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await prompt
        with pytest.raises(NotFound):
            await at.runtime.answer(ask_id, "once")


async def test_a_result_for_a_deleted_session_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[build_pending_tool("deploy")]) as at:
        await at.prompt("wait")
        waiting = await at.open_call()
        await at.runtime.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await at.runtime.complete(waiting.id, "v2")
        assert await at.runtime.statuses() == {}


async def test_children_are_deleted_with_their_parent_and_others_stay(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        child = await at.runtime.create_session(directory=tmp_path, parent_id=at.session_id)
        other = await at.runtime.create_session(directory=tmp_path)
        await at.runtime.send(child.id, "tool")
        await gate.until_started()
        await at.runtime.delete_session(at.session_id)
        await gate.ended.wait()
        gone = [event.session_id for event in [await at.listener.until(SessionDeleted) for _ in range(2)]]
        answer = await at.runtime.prompt(other.id, "hello")

    assert set(gone) == {child.id, at.session_id}
    assert answer.text == "ok"


async def test_a_session_that_another_runtime_works_on_can_be_deleted(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with (
        open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
    ):
        prompt = asyncio.ensure_future(at.prompt("tool"))
        await gate.until_started()
        await other.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await prompt
        await gate.ended.wait()


async def test_a_stream_and_a_wait_end_when_their_session_is_deleted(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:

        async def follow() -> list[Event]:
            return [event async for event in at.runtime.stream(at.session_id, "tool")]

        following = asyncio.ensure_future(follow())
        await gate.until_started()
        waiting = asyncio.ensure_future(at.runtime.wait(at.session_id))
        await asyncio.sleep(0)
        await at.runtime.delete_session(at.session_id)
        async with asyncio.timeout(PATIENCE):
            heard = await following
            with pytest.raises(NotFound):
                await waiting

    assert isinstance(heard[-1], SessionDeleted)


async def test_deleting_a_deleted_session_raises_not_found(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT) as at:
        await at.runtime.delete_session(at.session_id)
        with pytest.raises(NotFound):
            await at.runtime.delete_session(at.session_id)
