"""`why`: a code and one sentence for every session that does not move."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.conversation.status import Retry, WaitingAsync
from asyncagents.domain.event import PermissionAsked, SessionStatus
from asyncagents.domain.why import Why
from asyncagents.engine.tool import ToolContext
from asyncagents.errors import NotFound
from asyncagents.llm.scripted import ScriptedModel, call, fail, pause, say
from tests.support.delegation import (
    RequestScript,
    call_task,
    call_with_id,
    child_session,
    launch_task,
    open_delegation_stage,
    wait_until_quiet,
    wait_until_rest,
)
from tests.support.runtime import Stage, open_runtime
from tests.support.tool import CAREFUL, Gate, build_pending_tool


async def of(at: Stage) -> Why:
    why = await at.runtime.tasks.why(at.session_id)
    assert why.session_id == at.session_id
    assert why.sentence.endswith(".")
    assert "\n" not in why.sentence
    return why


@pytest.mark.spec("X-09")
async def test_why_is_idle_at_rest_and_unknown_sessions_are_not_found(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, {}) as at:
        new = await of(at)
        await at.prompt("go")
        done = await of(at)
        with pytest.raises(NotFound):
            await at.runtime.tasks.why(at.session_id.__class__("ses_nobody"))
    assert new.code == "idle"
    assert done.code == "idle"


@pytest.mark.spec("X-09")
async def test_why_names_a_running_tool_a_model_request_or_an_abort(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {"go": [[call("gate")], [say("Hm"), pause(3600)]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        tool = await of(at)
        gate.go.set()
        await at.listener.until_text("Hm")
        streams = await of(at)
        await at.abort()
        await wait_until_rest(at.runtime, at.session_id)
        aborted = await of(at)
    assert tool.code == "tool"
    assert ("gate" in tool.sentence) is True
    assert streams.code == "working"
    assert aborted.code == "aborted"
    assert "waits for its model, which was asked" in streams.sentence


@pytest.mark.spec("X-09")
async def test_why_names_the_child_of_a_parent_and_the_ask_of_a_child(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[call_task("F", "look")], [say("Ok.")]],
        "look": [[call("careful", text="x")], [say("A")]],
    }

    def careful(ask: object, context: ToolContext) -> str:
        return "ask" if getattr(ask, "permission", "") == "echo" else "allow"

    async with open_delegation_stage(tmp_path, scenes, CAREFUL, policy=careful) as at:
        await at.runtime.send(at.session_id, "go")
        asked = (await at.listener.until(PermissionAsked)).request
        await wait_until_quiet(at.runtime, at.session_id)
        child = await child_session(at, "F")
        above, below = await of(at), await at.runtime.tasks.why(child)
        await at.runtime.answer(asked.id, "reject")
        await wait_until_quiet(at.runtime, at.session_id)
        blocked = await at.runtime.tasks.why(child)
    assert above.code == "task"
    assert above.on == (child,)
    assert below.code == "permission"
    assert below.on == (asked.id,)
    assert blocked.code == "blocked"


@pytest.mark.spec("X-09")
async def test_why_names_the_pending_call_or_task_that_a_session_waits_for(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "job": [[call("job")], [say("Ok.")]],
        "go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")]],
        "wait": [call_with_id("asyncagents_output", block=True), [say("Ok.")]],
        "a": [[call("gate")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, build_pending_tool("job")) as at:
        await at.prompt("job")
        outside = await of(at)
        waiting = await at.open_call()
        await at.runtime.complete(waiting.id, "7")
        await wait_until_rest(at.runtime, at.session_id)
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "A")
        resting = await of(at)
        await at.runtime.send(at.session_id, "wait")
        await at.listener.until(
            SessionStatus,
            lambda told: isinstance(told.status, WaitingAsync) and told.status.tool == "asyncagents_output",
        )
        waits = await of(at)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done = await of(at)
    assert outside.code == "async"
    assert outside.on == (waiting.id,)
    assert resting.code == "tasks"
    assert resting.on == (child,)
    assert waits.code == "wait"
    assert waits.on == (child,)
    assert (child in waits.sentence) is True
    assert done.code == "idle"


@pytest.mark.spec("X-09", "D-10")
async def test_why_names_the_place_of_a_queued_task(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 2],
        "a": [[call("gate")], [say("A.")]],
    }
    async with open_delegation_stage(
        tmp_path, scenes, gate.tool, limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        why = await at.runtime.tasks.why(await child_session(at, "B"))
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    assert why.code == "queued"
    assert ("place 1" in why.sentence) is True


@pytest.mark.spec("X-09")
async def test_why_names_the_error_of_a_failure_and_of_a_retry(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[fail("it burns", retryable=True, retry_after=600)]],
        "other": [[fail("it sank")]],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("other")
        failed = await of(at)
        await at.runtime.send(at.session_id, "go")
        await at.listener.until(SessionStatus, lambda event: isinstance(event.status, Retry))
        retries = await of(at)
        await at.abort()
    assert failed.code == "failed"
    assert ("it sank" in failed.sentence) is True
    assert retries.code == "retry"
    assert ("it burns" in retries.sentence) is True


@pytest.mark.spec("X-09")
async def test_why_is_no_worker_when_no_process_serves_the_session(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, {}, serve=False) as at:
        await at.runtime.send(at.session_id, "go")
        soon = await of(at)
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as later_on, asyncio.timeout(20):
        why = await later_on.tasks.why(at.session_id)
        while why.code == "ready":  # until what is young is old
            why = await later_on.tasks.why(at.session_id)
    assert soon.code in ("ready", "no_worker")
    assert why.code == "no_worker"
    assert (f"--session {at.session_id}" in why.sentence) is True
