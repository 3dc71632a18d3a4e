"""A command that a person runs in a session: at once, as himself, without a model, and never twice."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from asyncagents import InvalidInput, SessionBusy
from asyncagents.domain.call.call import ABORTED
from asyncagents.domain.conversation.failure import MessageAbortedError
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolFailed, ToolPart, ToolRunning
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import MessageUpdated, PartUpdated, PermissionAsked, SessionIdle, SessionUpdated
from asyncagents.llm.model import ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import call, say
from tests.support.project import LONG_PROMPT, open_project
from tests.support.runtime import Stage, answer_of, open_stage, roles
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

WAIT = "mkfifo {0}; echo begun; cat {0}"
"""Runs until somebody writes into the pipe."""


async def until_begun(at: Stage) -> None:
    await at.listener.until(PartUpdated, lambda event: "begun" in str(_output(event.part)))


def _output(part: object) -> Any:
    state = part.state if isinstance(part, ToolPart) else None
    return state.metadata and state.metadata.get("output") if isinstance(state, ToolRunning) else None


@pytest.mark.spec("X-01")
async def test_a_command_runs_without_a_model_and_the_model_reads_it_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    async with open_project(tmp_path, {"hi": [[say("I see.")]]}, files={"a.txt": "one\n"}) as at:
        entry = await at.runtime.shell(at.session_id, "cat a.txt; pwd")
        asked = list(at.model.requests)
        entries = await at.messages()
        rested = await at.status()
        await at.prompt("hi")

    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.tool == "bash"
    assert part.state.input == {"command": "cat a.txt; pwd"}
    assert part.state.output == f"one\n{tmp_path / 'project'}\n" == part.state.metadata["output"]
    step = answer_of(entry)
    assert step.finish is None
    assert step.error is None
    assert bool(step.time.completed) is True
    assert asked == []
    assert rested == Idle()
    assert roles(entries) == ["user", "assistant"]
    (said,) = entries[0].parts
    assert isinstance(said, TextPart)
    assert said.synthetic
    assert step.parent_id == entries[0].info.id
    first, called, result, prompt = at.request_messages()
    assert isinstance(first, UserTurn)
    assert first.text == said.text
    assert isinstance(called, ModelTurn)
    assert called.calls[0].input == {"command": "cat a.txt; pwd"}
    assert isinstance(result, ToolTurn)
    assert result.output.startswith("one")
    assert prompt == UserTurn("hi")


@pytest.mark.spec("X-01")
async def test_rules_do_not_apply_to_a_shell_command_of_a_person(tmp_path: Path) -> None:
    rules = {"bash": "deny", "external_directory": "ask"}
    async with open_project(tmp_path, {}, permission=rules) as at:
        entry = await at.runtime.shell(at.session_id, f"echo mine > {tmp_path}/outside", agent="plan")
    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert (tmp_path / "outside").read_text() == "mine\n"
    assert not at.listener.of(PermissionAsked)
    assert answer_of(entry).agent == "plan"


async def test_a_failed_command_reports_its_exit_code_and_the_turn_succeeds(tmp_path: Path) -> None:
    async with open_project(tmp_path, {}) as at:
        entry = await at.runtime.shell(at.session_id, "echo no >&2; exit 3")
    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output == "no\n\n\n<exit code 3>"
    assert part.state.metadata["output"] == "no\n"
    assert part.state.metadata["exit"] == 3
    assert answer_of(entry).error is None


@pytest.mark.spec("X-01")
async def test_a_prompt_during_a_command_is_answered_after_it(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    async with open_project(tmp_path, {"hi": [[say("Hello.")]]}) as at, asyncio.TaskGroup() as group:
        running = group.create_task(at.runtime.shell(at.session_id, WAIT.format(pipe)))
        await until_begun(at)
        assert await at.status() == Busy()
        prompted = group.create_task(at.prompt("hi"))
        await at.listener.until(MessageUpdated, lambda event: isinstance(event.info, UserMessage))
        before = list(at.model.requests)
        await asyncio.to_thread(pipe.write_text, "through\n")
        entry, answer = await running, await prompted
    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output == "begun\nthrough\n"
    assert before == []
    assert answer.text == "Hello."
    assert len(at.model.requests) == 1


@pytest.mark.spec("X-01")
async def test_a_session_with_an_open_ask_refuses_a_command(tmp_path: Path) -> None:
    script = {"go": [[call("bash", command="true")], [say("Done.")]]}
    async with open_project(tmp_path, script, permission={"bash": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        with pytest.raises(SessionBusy, match="is at work"):
            await at.runtime.shell(at.session_id, "echo now")
        before = len(await at.messages())
        await at.runtime.answer(asked.request.id, "once")
        await at.listener.until(SessionIdle)
        after = len(await at.messages())
        entry = await at.runtime.shell(at.session_id, "echo now")
    assert before == 2
    assert after == 3
    assert answer_of(entry).error is None


@pytest.mark.spec("X-01")
async def test_an_abort_ends_a_command_and_all_that_it_started(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    async with open_project(tmp_path, {"hi": [[say("Hello.")]]}) as at, asyncio.TaskGroup() as group:
        command = f"(trap '' TERM; sleep 1000; echo survived > {tmp_path}/s) & {WAIT.format(pipe)}"
        running = group.create_task(at.runtime.shell(at.session_id, command))
        await until_begun(at)
        assert await at.abort()
        entry = await running
        await at.prompt("hi")
    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolFailed)
    assert part.state.error == ABORTED
    assert part.state.metadata == {"output": "begun\n"}
    assert isinstance(answer_of(entry).error, MessageAbortedError)
    assert not (tmp_path / "s").exists()
    result = at.request_messages()[2]
    assert isinstance(result, ToolTurn)
    assert result.failed


async def test_the_same_key_runs_a_command_once(tmp_path: Path) -> None:
    async with open_project(tmp_path, {}) as at:
        first = await at.runtime.shell(at.session_id, f"echo x >> {tmp_path}/log", key="k")
        again = await at.runtime.shell(at.session_id, f"echo x >> {tmp_path}/log", key="k")
    assert first == again
    assert (tmp_path / "log").read_text() == "x\n"


async def test_a_second_command_at_once_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    async with open_project(tmp_path, {}) as at, asyncio.TaskGroup() as group:
        running = group.create_task(at.runtime.shell(at.session_id, WAIT.format(pipe)))
        await until_begun(at)
        with pytest.raises(SessionBusy):
            await at.runtime.shell(at.session_id, "echo second")
        await asyncio.to_thread(pipe.write_text, "")
        await running
        assert len(await at.messages()) == 2


async def test_todos_that_are_left_do_not_wake_the_model_after_a_command(tmp_path: Path) -> None:
    todos = [{"content": "more", "status": "pending", "priority": "high"}]
    nudged = [[call("todowrite", todos=todos)], *[[say("Later.")] for _ in range(9)]]
    async with open_project(tmp_path, {"plan": nudged}) as at:
        await at.prompt("plan")
        before = len(at.model.requests)
        await at.runtime.shell(at.session_id, "true")
        after = len(at.model.requests)
    assert before == after


@pytest.mark.parametrize("command", ["", "  \n", "echo \0", "echo \ud800"])
async def test_an_invalid_command_is_refused_and_nothing_is_stored(tmp_path: Path, command: str) -> None:
    async with open_project(tmp_path, {}) as at:
        with pytest.raises(InvalidInput):
            await at.runtime.shell(at.session_id, command)
        assert await at.messages() == ()


async def test_a_command_as_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    async with open_project(tmp_path, {}) as at:
        with pytest.raises(InvalidInput, match="nobody"):
            await at.runtime.shell(at.session_id, "true", agent="nobody")
        assert await at.messages() == ()


async def test_a_command_is_refused_where_there_is_no_shell(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, {}, tools=[gate.tool]) as at:
        with pytest.raises(InvalidInput, match="there is no shell here"):
            await at.runtime.shell(at.session_id, "true")


async def test_a_long_output_is_cut_for_the_model_and_kept_in_a_file(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), open_project(tmp_path, {}) as at:
        entry = await at.runtime.shell(at.session_id, "yes | head -c 300000")
    (part,) = entry.parts
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.state.metadata["truncated"]
    assert len(part.state.output) < 40_000
    assert (await asyncio.to_thread(os.stat, part.state.metadata["outputPath"])).st_size == 300_000


async def test_the_first_prompt_after_a_command_names_the_session(tmp_path: Path) -> None:
    script = {LONG_PROMPT: [[say("Payment worker")]]}
    async with open_project(tmp_path, script) as at:
        await at.runtime.shell(at.session_id, "true")
        await at.runtime.shell(at.session_id, "true")
        unnamed = (await at.runtime.session(at.session_id)).title
        await at.prompt(LONG_PROMPT)
        await at.listener.until(SessionUpdated, lambda event: event.info.title == "Payment worker")
    assert unnamed.startswith("New session")
