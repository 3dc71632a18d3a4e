"""Edges of permissions, answers and rules: what must be refused, told, bounded or kept."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import ToolCompleted, ToolPart
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.event import PartUpdated, PermissionAsked, PromptAnswered
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import InvalidInput
from asyncagents.llm.scripted import call, say
from asyncagents.tools.search.required_literals import find_literals
from asyncagents.tools.shell.rules import parse_command
from tests.support.git import create_repository
from tests.support.project import ASK_EDITS, open_project
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import NoArguments

WRITE = {"go": [[call("write", filePath="a.txt", content="mine")], [say("Ok.")]]}


async def nothing_to_ask(args: NoArguments, context: ToolContext) -> tuple[Ask, ...]:
    return ()


async def another_name(args: NoArguments, context: ToolContext) -> tuple[Ask, ...]:
    return (Ask("edit", ("notes.txt",)),)


@pytest.mark.spec("A-04")
@pytest.mark.parametrize("plan", [nothing_to_ask, another_name])
async def test_a_tool_of_ones_own_that_is_denied_by_name_does_not_run(tmp_path: Path, plan: Any) -> None:
    runs: list[str] = []

    async def run(args: NoArguments, context: ToolContext) -> Completed:
        runs.append(context.call_id)
        return Completed("done")

    create_repository(tmp_path / "project", {})
    deploy = Tool("deploy", NoArguments, run, plan=plan)
    coding = Config(data_dir=tmp_path / "data", permission={"deploy": "deny"})
    script = {"go": [[call("deploy")], [say("Ok.")]]}
    async with open_stage(
        tmp_path / "data", script, tools=[deploy], coding=coding, directory=tmp_path / "project"
    ) as at:
        await at.prompt("go")
    assert "deploy" not in [tool.name for tool in at.model.requests[0].tools]
    assert runs == []


@pytest.mark.spec("A-03")
async def test_rules_of_the_config_argument_apply_to_a_coding_runtime(tmp_path: Path) -> None:
    create_repository(tmp_path / "project", {})
    config = Config(data_dir=tmp_path / "data", permission={"edit": "deny"})
    async with open_stage(
        tmp_path / "data", WRITE, config=config, coding=True, directory=tmp_path / "project"
    ) as at:
        await at.prompt("go")
    assert not (tmp_path / "project" / "a.txt").exists()


@pytest.mark.spec("A-02")
async def test_the_default_agent_of_the_coding_config_answers(tmp_path: Path) -> None:
    async with open_project(tmp_path, {"go": [[say("Ok.")]]}, default_agent="plan") as at:
        answer = await at.prompt("go")
    assert answer_of(answer).agent == "plan"


@pytest.mark.spec("A-02")
async def test_where_build_is_disabled_another_agent_answers(tmp_path: Path) -> None:
    agent = {"build": AgentConfig(disable=True)}
    async with open_project(tmp_path, {"go": [[say("Ok.")]]}, agent=agent) as at:
        answer = await at.prompt("go")
    assert answer_of(answer).error is None


@pytest.mark.spec("A-02")
async def test_the_default_agent_brings_its_own_model(tmp_path: Path) -> None:
    big = ModelRef(provider_id="scripted", model_id="big")
    async with open_project(tmp_path, {"go": [[say("Ok.")]]}, agent={"build": AgentConfig(model=big)}) as at:
        answer = await at.prompt("go")
    assert answer_of(answer).model_id == "big"


@pytest.mark.spec("A-03")
async def test_a_child_in_another_directory_keeps_the_denials_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    create_repository(tmp_path / "strict", {"asyncagents.json": '{"permission": {"edit": "deny"}}'})
    create_repository(tmp_path / "lax", {})
    async with open_stage(tmp_path / "data", WRITE, coding=True, directory=tmp_path / "strict") as at:
        child = await at.runtime.create_session(parent_id=at.session_id, directory=tmp_path / "lax")
        await at.runtime.send(child.id, "go")
        await at.runtime.wait(child.id)
    assert not (tmp_path / "lax" / "a.txt").exists()


@pytest.mark.spec("A-04")
@pytest.mark.parametrize("given", ["text", [1], 5])
async def test_arguments_that_are_no_object_are_refused(tmp_path: Path, given: Any) -> None:
    """Once stored, the call cannot be read any more, and its session is stuck."""
    async with open_project(tmp_path, WRITE, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        with pytest.raises(InvalidInput):
            await at.runtime.answer(asked.request.id, "once", input=given)


@pytest.mark.spec("A-04")
@pytest.mark.parametrize("reply", [None, 5, b"once"])
async def test_an_invalid_answer_to_an_ask_is_refused(tmp_path: Path, reply: Any) -> None:
    async with open_project(tmp_path, WRITE, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        with pytest.raises(InvalidInput):
            await at.runtime.answer(asked.request.id, reply)


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("rule", [("edit", "*", "deny"), "edit"])
async def test_a_session_with_malformed_rules_is_refused(tmp_path: Path, rule: Any) -> None:
    """Once stored, the session cannot be read any more."""
    async with open_project(tmp_path, {}) as at:
        with pytest.raises(InvalidInput):
            await at.runtime.create_session(directory=tmp_path, permission=[cast("Rule", rule)])


@pytest.mark.spec("A-04")
async def test_a_repeated_answer_is_accepted_after_the_call_asks_again(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = {"go": [[call("write", filePath="../out/a.txt", content="mine")], [say("Ok.")]]}
    async with open_project(tmp_path, script, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        first = await at.listener.until(PermissionAsked)
        await at.runtime.answer(first.request.id, "once")
        await at.listener.until(PermissionAsked)
        await at.runtime.answer(first.request.id, "once")


@pytest.mark.spec("A-04")
async def test_always_in_one_project_leaves_the_asks_of_another_alone(tmp_path: Path) -> None:
    create_repository(tmp_path / "a", {})
    create_repository(tmp_path / "b", {})
    coding = Config(data_dir=tmp_path / "data", permission=ASK_EDITS)
    async with open_stage(tmp_path / "data", WRITE, coding=coding, directory=tmp_path / "a") as at:
        child = await at.runtime.create_session(parent_id=at.session_id, directory=tmp_path / "b")
        await at.runtime.send(child.id, "go")
        elsewhere = await at.listener.until(PermissionAsked)
        await at.runtime.send(at.session_id, "go")
        here = await at.listener.until(PermissionAsked)
        await at.runtime.answer(here.request.id, "always")
        async with asyncio.timeout(20):
            await at.runtime.wait_tree(at.session_id)
        (waiting,) = await at.runtime.asks()
    assert waiting.call.ask_id == elsewhere.request.id


async def test_a_report_after_the_end_does_not_show_the_call_as_running(tmp_path: Path) -> None:
    kept: list[ToolContext] = []

    async def run(args: NoArguments, context: ToolContext) -> Completed:
        kept.append(context)
        return Completed("done")

    script = {"go": [[call("deploy")], [say("Ok.")]], "more": [[say("Yes.")]]}
    async with open_stage(
        tmp_path, script, tools=[Tool("deploy", NoArguments, run, plan=nothing_to_ask)]
    ) as at:
        await at.prompt("go")
        kept[0].report({"output": "late"})
        await at.prompt("more")
        await at.listener.until(PromptAnswered)
        await at.listener.until(PromptAnswered)
    shown = [event.part for event in at.listener.of(PartUpdated) if isinstance(event.part, ToolPart)]
    assert isinstance(shown[-1].state, ToolCompleted)


@pytest.mark.spec("A-07")
async def test_the_output_of_a_tool_of_ones_own_is_capped(tmp_path: Path) -> None:
    async def run(args: NoArguments, context: ToolContext) -> Completed:
        return Completed("x" * 1_000_000)

    create_repository(tmp_path / "project", {})
    coding = Config(data_dir=tmp_path / "data", permission={"big": "allow"})
    script = {"go": [[call("big")], [say("Ok.")]]}
    async with open_stage(
        tmp_path / "data",
        script,
        tools=[Tool("big", NoArguments, run)],
        coding=coding,
        directory=tmp_path / "project",
    ) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    assert len(state.output) < 100_000


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("pattern", [r"\x41bcd", r"\u0041bcd", r"\101bcd"])
def test_the_literal_filter_of_a_search_keeps_matches_of_escapes(pattern: str) -> None:
    assert re.search(pattern, "Abcd")
    assert find_literals(pattern).may_match(b"Abcd")


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("word", ["bash -c ", "nice -n ", "env -i "])
def test_a_line_of_wrappers_within_wrappers_is_taken_apart_into_few_commands(word: str) -> None:
    """The work grows with the fourth power of the words: a line of 20,000 characters would never end."""
    assert len(parse_command(word * 24).commands) <= 24 * 3


@pytest.mark.spec("X-11")
async def test_a_call_of_an_older_program_runs_when_it_is_approved(tmp_path: Path) -> None:
    """Before agents were kept with calls, a call did not say whose it was."""
    async with open_project(tmp_path, WRITE, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
    with closing(sqlite3.connect(tmp_path / "data" / "asyncagents.db")) as database:
        database.execute("UPDATE call SET body = json_remove(CAST(body AS TEXT), '$.agent')")
        database.execute("UPDATE call SET body = CAST(body AS BLOB)")
        database.commit()
    async with open_project(tmp_path, WRITE, permission=ASK_EDITS) as later:
        call_ = await later.runtime.answer(asked.request.id, "once")
        await later.runtime.wait(call_.session_id)
    assert (tmp_path / "project" / "a.txt").read_text() == "mine"
