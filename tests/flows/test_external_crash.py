"""External agents and the process that works with them: it stops in the middle, and another goes on."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolFailed, ToolPart
from asyncagents.domain.event import PartDelta, PermissionAsked
from asyncagents.domain.id import SessionId
from asyncagents.remote.acp.opening import load_text
from asyncagents.testing.acp_agent import Act, AgentScript
from asyncagents.testing.inside import inside
from tests.support.acp_agent import ALLOWED, ExternalStage, launching, open_external_stage, scripted
from tests.support.delegation import find_notices, wait_until_quiet
from tests.support.runtime import EventListener

LAUNCH = launching(tool="asyncagents_task")
CONTINUE = load_text("continue")
CALL = {"toolCallId": "c1", "title": "make all", "kind": "execute", "rawInput": {"command": "make all"}}
BEGIN = Act(update={"sessionUpdate": "tool_call", "status": "in_progress", **CALL})
WORK = [BEGIN, Act(say="Half."), Act(hang=True)]


@asynccontextmanager
async def again(tmp_path: Path, script: AgentScript, **more: Any) -> AsyncIterator[ExternalStage]:
    """Open the project after a stop; the parent has launched already."""
    async with open_external_stage(tmp_path, script, LAUNCH, **more) as stage:
        yield stage


async def stop_in_work(tmp_path: Path, script: AgentScript, **more: Any) -> tuple[SessionId, SessionId]:
    """Launch the agent, and stop the process when the agent has begun to work; parent and child."""
    async with open_external_stage(tmp_path, script, LAUNCH, **more) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await stage.at.listener.until(PartDelta, lambda event: event.delta == "Half.")
        return stage.at.session_id, await stage.child()


async def ended(stage: ExternalStage, parent: SessionId) -> None:
    await wait_until_quiet(stage.at.runtime, parent)
    notices = find_notices(await stage.at.runtime.messages(parent))
    assert len(notices) == 1


@pytest.mark.spec("X-03")
async def test_work_that_the_replay_shows_is_continued_and_not_asked_for_again(tmp_path: Path) -> None:
    parent, child = await stop_in_work(tmp_path, scripted({"look": WORK}))
    turns = {CONTINUE[:40]: [Act(say="Whole.")]}
    async with again(tmp_path, scripted(turns)) as stage:
        await ended(stage, parent)
        task = await stage.task()
        entries = await stage.at.runtime.messages(child)
        known = await inside(stage.at.runtime).store.external.session(child)
    assert stage.prompts == ["look", CONTINUE]
    assert (task.status, task.result) == ("completed", "Whole.")
    assert [entry.text for entry in entries] == ["look", "Half.", "Whole."]
    (call,) = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert isinstance(call.state, ToolFailed)
    assert known is not None
    assert (known.prompt, known.prompts) == (None, 2)


@pytest.mark.spec("X-03")
async def test_a_prompt_without_work_after_it_is_sent_again(tmp_path: Path) -> None:
    parent, child = await stop_in_work(tmp_path, scripted({"look": WORK}))
    async with again(tmp_path, scripted({"look": [Act(say="Whole.")]}), serve=False) as stage:
        (session_id,) = stage.memory
        stage.memory[session_id] = stage.memory[session_id][:1]
    async with again(tmp_path, scripted({"look": [Act(say="Whole.")]})) as stage:
        await ended(stage, parent)
        assert (await stage.task()).result == "Whole."
    assert stage.prompts == ["look", "look"]
    assert child


@pytest.mark.spec("X-03")
async def test_a_prompt_that_the_agent_never_got_is_sent_again(tmp_path: Path) -> None:
    parent, _ = await stop_in_work(tmp_path, scripted({"look": WORK}))
    async with again(tmp_path, scripted(), serve=False) as stage:
        (session_id,) = stage.memory
        stage.memory[session_id] = []
    async with again(tmp_path, scripted({"look": [Act(say="Whole.")]})) as stage:
        await ended(stage, parent)
    assert stage.prompts == ["look"]


@pytest.mark.spec("X-03")
async def test_a_first_prompt_that_is_sent_again_has_its_instructions(tmp_path: Path) -> None:
    strict = "Be strict."
    parent, _ = await stop_in_work(tmp_path, scripted({"look": WORK}), instructions=strict)
    async with again(tmp_path, scripted(), serve=False) as stage:
        (session_id,) = stage.memory
        before = stage.prompts
        stage.memory[session_id] = []
    async with again(tmp_path, scripted({"look": [Act(say="Whole.")]}), instructions=strict) as stage:
        await ended(stage, parent)
    assert before == ["Be strict.\nlook"]
    assert stage.prompts == before


@pytest.mark.spec("X-03")
async def test_a_first_prompt_that_is_sent_again_has_the_transcript(tmp_path: Path) -> None:
    offers: dict[str, Any] = {"loads": True, "resumes": False}
    async with open_external_stage(
        tmp_path, scripted({"look": [Act(say="Red.")]}, **offers), LAUNCH
    ) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        parent, child = stage.at.session_id, await stage.child()
        stage.memory.clear()
    async with again(tmp_path, scripted({"more": WORK}, **offers)) as stage:
        with inside(stage.at.runtime).bus.subscribe() as subscription:
            await stage.at.runtime.tasks.resume(child, "more")
            await EventListener(subscription).until_text("Half.")
    async with again(tmp_path, scripted(), serve=False) as stage:
        (session_id,) = stage.memory
        before = stage.prompts
        stage.memory[session_id] = []
    async with again(tmp_path, scripted({"more": [Act(say="Whole.")]}, **offers)) as stage:
        await wait_until_quiet(stage.at.runtime, parent)
        task = await stage.task()
    assert before == [f"{load_text('transcript')}\n\nUser: look\n\nAgent: Red.\nmore"]
    assert stage.prompts == before
    assert task.result == "Whole."


@pytest.mark.spec("X-03")
async def test_an_agent_that_only_resumes_is_told_to_go_on_and_shown_the_prompt(tmp_path: Path) -> None:
    """It cannot be asked whether the prompt reached it."""
    parent, _ = await stop_in_work(tmp_path, scripted({"look": WORK}, loads=False))
    async with again(tmp_path, scripted({CONTINUE[:40]: [Act(say="Whole.")]}, loads=False)) as stage:
        await ended(stage, parent)
        assert (await stage.task()).result == "Whole."
    assert stage.prompts == ["look", f"{CONTINUE}\n{load_text('repeat')}\nlook"]


@pytest.mark.spec("X-03")
async def test_a_session_whose_first_prompt_never_arrived_is_introduced_by_the_next_one(
    tmp_path: Path,
) -> None:
    """It has instructions and the first prompt in the transcript: they were not answered."""
    strict, script = "Be strict.", scripted({"look": [Act(exit=1)]})
    async with open_external_stage(tmp_path, script, LAUNCH, instructions=strict) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        parent, child = stage.at.session_id, await stage.child()
        (session_id,) = stage.memory
        stage.memory[session_id] = []
    async with again(tmp_path, scripted(), instructions=strict) as stage:
        await stage.at.runtime.tasks.resume(child, "more")
        await wait_until_quiet(stage.at.runtime, parent)
        await stage.at.runtime.tasks.resume(child, "even more")
        await wait_until_quiet(stage.at.runtime, parent)
    first, second = stage.prompts
    assert first.startswith(strict)
    assert "look" in first
    assert first.endswith("more")
    assert second == "even more"


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("gone", [True, False])
async def test_a_task_whose_program_does_not_start_again_ends_in_doubt(tmp_path: Path, gone: bool) -> None:
    """It may have done all that it was asked: who launches it again must know that."""
    script = tmp_path / "program"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m asyncagents.testing.acp_agent "$@"\n')
    script.chmod(0o755)
    files = (str(tmp_path / "script.json"), str(tmp_path / "memory"))
    parent, _ = await stop_in_work(tmp_path, scripted({"look": WORK}), command=(str(script), *files))
    script.unlink() if gone else script.write_text("#!/bin/sh\nexit 1\n")
    async with again(tmp_path, scripted(), command=(str(script), *files)) as stage:
        await ended(stage, parent)
        task = await stage.task()
    assert (task.status, task.ended_by, task.result) == ("error", "crash", "Half.")
    assert (task.error or "").startswith("TaskInDoubt: ")


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("lost", [False, True])
async def test_a_task_whose_agent_cannot_go_on_ends_in_doubt_with_its_partial_text(
    tmp_path: Path, lost: bool
) -> None:
    offers: dict[str, Any] = {} if lost else {"loads": False, "resumes": False}
    parent, child = await stop_in_work(tmp_path, scripted({"look": WORK}, **offers))
    if lost:
        async with again(tmp_path, scripted(), serve=False) as stage:
            stage.memory.clear()
    async with again(tmp_path, scripted(**offers)) as stage:
        await ended(stage, parent)
        task = await stage.task()
        entry = (await stage.at.runtime.messages(child))[-1]
    assert isinstance(entry.info, AssistantMessage)
    assert (task.status, task.ended_by, task.result) == ("error", "crash", "Half.")
    assert (task.error or "").startswith("TaskInDoubt: ")
    assert stage.prompts == ([] if lost else ["look"])


@pytest.mark.spec("X-03")
async def test_a_task_in_doubt_can_be_given_a_follow_up(tmp_path: Path) -> None:
    offers: dict[str, Any] = {"loads": False, "resumes": False}
    parent, child = await stop_in_work(tmp_path, scripted({"look": WORK}, **offers))
    async with again(tmp_path, scripted({"more": [Act(say="Whole.")]}, **offers)) as stage:
        await ended(stage, parent)
        await stage.at.runtime.tasks.resume(child, "more")
        await wait_until_quiet(stage.at.runtime, parent)
        task = await stage.task()
    assert (task.status, task.result) == ("completed", "Whole.")
    assert "User: look" in stage.prompts[-1]


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(("reply", "chosen"), [("once", "yes"), ("reject", "no")])
async def test_an_ask_outlives_a_crash_and_its_answer_is_given_when_the_agent_asks_again(
    tmp_path: Path, reply: Any, chosen: str
) -> None:
    rules = {**ALLOWED, "bash": "ask"}
    asking = scripted({CONTINUE[:40]: [Act(ask=CALL)], "look": [Act(say="Half."), Act(ask=CALL)]})
    async with open_external_stage(tmp_path, asking, LAUNCH, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        asked = (await stage.at.listener.until(PermissionAsked)).request
        parent = stage.at.session_id
    async with again(tmp_path, asking, permission=rules) as stage:
        (open_ask,) = await stage.at.runtime.asks()
        await stage.at.runtime.answer(asked.id, reply)
        await ended(stage, parent)
        task = await stage.task()
        assert await stage.at.runtime.asks() == ()
    assert open_ask is not None
    assert (task.status, task.result) == ("completed", chosen)
    assert stage.prompts == ["look", CONTINUE]


@pytest.mark.spec("X-03")
async def test_input_that_came_after_the_crash_is_sent_with_the_continuation(tmp_path: Path) -> None:
    parent, child = await stop_in_work(tmp_path, scripted({"look": WORK}))
    async with again(tmp_path, scripted(), serve=False) as stage:
        await stage.at.runtime.tasks.resume(child, "more")
    async with again(tmp_path, scripted({"more": [Act(say="Whole.")]})) as stage:
        await ended(stage, parent)
    assert stage.prompts == ["look", f"{CONTINUE}\nmore"]
