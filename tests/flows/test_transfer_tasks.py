"""Sessions that work for others are exported and imported with them, and who waited is told."""

import asyncio
from pathlib import Path

import pytest

from asyncagents import approval, async_tool
from asyncagents.domain.conversation.part import ToolFailed
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import PermissionAsked
from asyncagents.domain.transfer.records import SESSION_CUT_OFF
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import call, say
from tests.support.delegation import (
    RequestScript,
    call_task,
    find_notices,
    launch_task,
    open_delegation_stage,
    wait_until_quiet,
)
from tests.support.runtime import open_stage
from tests.support.tool import CAREFUL, ECHO, Gate, build_pending_tool
from tests.support.transfer import export_files, import_into_store, open_other_store
from tests.support.wait import PATIENCE, wait_until

DEPLOY = build_pending_tool("deploy")


@pytest.mark.spec("P-13")
async def test_an_imported_pending_child_finishes_and_its_parent_gets_a_notice(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[call_task("A", "a")], [say("Fine.")]],
        "a": [[call("deploy")], [say("A is live.")]],
    }
    async with open_delegation_stage(tmp_path / "here", scenes, DEPLOY) as at:
        await at.prompt("go")
        (child,) = await at.runtime.children(at.session_id)
        (waiting,) = await at.runtime.open_calls(child.id)
        await export_files(at.runtime, tmp_path / "files")

    done = await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_delegation_stage(tmp_path / "there", scenes, DEPLOY) as there:
        runtime = there.runtime
        parent, below = await runtime.status(at.session_id), await runtime.status(child.id)
        assert not there.model.requests
        await runtime.async_tools.submit_result(waiting.id, "v2")
        await wait_until_quiet(runtime, at.session_id)

        async def has_notice() -> bool:
            return bool(find_notices(await runtime.messages(at.session_id)))

        await wait_until(has_notice)  # two sessions, one end
        await wait_until_quiet(runtime, at.session_id)
        (task,) = await runtime.tasks.list()
        again = await there.runtime.messages(at.session_id)

    assert not done.troubles
    assert type(parent) is Idle
    assert type(below) is WaitingAsync
    assert task.status == "completed"
    assert task.result == "A is live."
    assert len(find_notices(again)) == 1


@pytest.mark.spec("P-13")
async def test_the_cut_off_of_an_imported_child_is_in_the_next_parent_request(
    tmp_path: Path,
) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off it goes.")]],
        "a": [[call("gate")], [say("A is 1.")]],
        "and?": [[say("Yes.")]],
    }
    async with open_delegation_stage(tmp_path / "here", scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await export_files(at.runtime, tmp_path / "files")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_delegation_stage(tmp_path / "there", scenes, gate.tool) as there:
        (task,) = await there.runtime.tasks.list()
        assert not there.model.requests
        await asyncio.wait_for(there.runtime.prompt(at.session_id, "and?"), PATIENCE)
        told = there.model.requests[0].messages

    assert task.status == "cancelled"
    assert task.error == f"MessageAbortedError: {SESSION_CUT_OFF}"
    assert gate.runs == 1
    texts = [each.text for each in told if isinstance(each, UserTurn)]
    assert any(SESSION_CUT_OFF in text for text in texts[1:])


@pytest.mark.spec("P-13", "P-04")
async def test_all_pending_calls_of_an_imported_turn_are_awaited(tmp_path: Path) -> None:
    tools = [DEPLOY, build_pending_tool("test"), build_pending_tool("announce")]
    script = {"ship": [[call("deploy"), call("test"), call("announce")], [say("Shipped.")]]}
    async with open_stage(tmp_path / "here", script, tools=tools) as at:
        await at.prompt("ship")
        first, second, third = await at.runtime.open_calls(at.session_id)
        await at.runtime.async_tools.submit_result(second.id, "2")
        await asyncio.wait_for(at.runtime.wait(at.session_id), PATIENCE)
        before = await export_files(at.runtime, tmp_path / "files")

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", script, *tools) as (runtime, model):
        assert await export_files(runtime, tmp_path / "again") == before
        await runtime.async_tools.submit_error(third.id, "3 failed")
        assert isinstance(await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE), WaitingAsync)
        assert not model.requests
        await runtime.async_tools.submit_result(first.id, "1")
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)
    (request,) = model.requests
    assert [told.output for told in request.messages if isinstance(told, ToolTurn)] == ["1", "2", "3 failed"]


@pytest.mark.spec("P-13")
async def test_a_call_with_an_open_ask_is_imported_as_failed(tmp_path: Path) -> None:
    async with open_stage(
        tmp_path / "here", {"go": [[call("careful", text="x")], [say("x")]]}, tools=[CAREFUL]
    ) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until(PermissionAsked)
        await wait_until(lambda: not at.runtime.live)  # no event tells that a run is gone
        await export_files(at.runtime, tmp_path / "files")
        await at.abort()
    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there") as (runtime, _):
        (_, step) = await runtime.messages(at.session_id)
        assert await runtime.asks() == ()
    (state,) = [part.state for part in step.parts if hasattr(part, "state")]
    assert isinstance(state, ToolFailed)


@approval(who="release managers")
def may_ship(version: str) -> str:
    """Ask whether a version may go out."""
    return f"May {version} go out?"


@pytest.mark.spec("P-13")
async def test_an_open_approval_is_answered_after_the_import(tmp_path: Path) -> None:
    script = {"ship": [[call("may_ship", version="v2")], [say("Noted.")]]}
    async with open_stage(tmp_path / "here", script, tools=[may_ship]) as at:
        await at.prompt("ship")
        before = await export_files(at.runtime, tmp_path / "files")
    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", script, may_ship) as (runtime, model):
        assert await export_files(runtime, tmp_path / "again") == before
        (asked,) = await runtime.asks()
        assert asked.call.ask_id is not None
        await runtime.answer(asked.call.ask_id, [["Approve"]])
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)
        assert not await runtime.asks()
    (request,) = model.requests
    (result,) = [told.output for told in request.messages if isinstance(told, ToolTurn)]
    assert result.lower().startswith("approved")


@pytest.mark.spec("P-13", "P-08")
async def test_an_async_tool_that_was_starting_is_imported_as_pending(tmp_path: Path) -> None:
    """Its record says `processing`: whether the work began is unknown, and a result may come."""
    started, go = asyncio.Event(), asyncio.Event()

    @async_tool
    async def deploy(version: str) -> str:
        """Deploy."""
        started.set()
        await go.wait()
        return "queued"

    script = {"ship": [[call("deploy", version="v2")], [say("Shipped.")]]}
    async with open_stage(tmp_path / "here", script, tools=[deploy]) as at:
        await at.runtime.send(at.session_id, "ship")
        await asyncio.wait_for(started.wait(), PATIENCE)
        found = await export_files(at.runtime, tmp_path / "files")
        go.set()
        await asyncio.wait_for(at.runtime.wait(at.session_id), PATIENCE)
        waiting = await at.open_call()
    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_other_store(tmp_path / "there", script, deploy) as (runtime, model):
        pending_call = await runtime.async_tools.get(waiting.id)
        await runtime.async_tools.submit_result(waiting.id, "v2 is live")
        await asyncio.wait_for(runtime.wait(at.session_id), PATIENCE)
    assert b'"status":"processing"' in found[f"pending_tool/{waiting.id}.json"]
    assert pending_call.status == "waiting"
    assert len(model.requests) == 1


@pytest.mark.spec("P-13", "Z-05", "Z-03")
async def test_an_imported_second_run_keeps_its_own_counts_and_the_totals(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off it goes.")], [say("It came.")]],
        "a": [[call("echo", text="1"), call("echo", text="2")], [say("A is 1.")]],
        "more": [[call("gate")], [say("A is 2.")]],
    }
    async with open_delegation_stage(tmp_path / "here", scenes, gate.tool, ECHO) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        (first,) = await at.runtime.tasks.list()
        await at.runtime.tasks.resume(first.session_id, "more")
        await gate.until_started()
        (live,) = await at.runtime.tasks.list()
        await export_files(at.runtime, tmp_path / "files")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        (ended,) = await at.runtime.tasks.list()
        await export_files(at.runtime, tmp_path / "later")

    await import_into_store(tmp_path / "there", tmp_path / "files")
    async with open_delegation_stage(tmp_path / "there", scenes, gate.tool, ECHO) as there:
        (task,) = await there.runtime.tasks.list()
    await import_into_store(tmp_path / "third", tmp_path / "later")
    async with open_delegation_stage(tmp_path / "third", scenes, gate.tool, ECHO) as third:
        (kept,) = await third.runtime.tasks.list()
    assert live.progress is not None
    assert live.totals is not None
    assert live.progress.tool_calls_by_name == {"gate": 1}
    assert live.totals.tool_calls == 3
    assert task.progress is not None
    assert task.totals is not None
    assert task.status == "cancelled"
    assert task.progress.tool_calls_by_name == {"gate": 1}
    assert task.totals.runs == 2
    assert task.totals.tool_calls_by_name == {"echo": 2, "gate": 1}
    assert kept == ended
    assert kept.totals is not None
    assert kept.kind == "background"
    assert kept.totals.tool_calls == 3
