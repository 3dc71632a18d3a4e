"""A fork: a task that begins with what whoever launched it was told."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolPart
from asyncagents.domain.id import SessionId
from asyncagents.domain.window import Window
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.model import ChatRequest, ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptLine, call, say
from tests.support.delegation import (
    allow_all,
    find_notices,
    launch_task,
    task_named,
    visible_texts,
    wait_until_quiet,
)
from tests.support.model import WindowModel
from tests.support.runtime import open_runtime
from tests.support.tool import ECHO, Gate
from tests.support.wait import PATIENCE

PREAMBLE = "You are a fork."


def last_said(request: ChatRequest) -> str:
    return [told.text for told in request.messages if isinstance(told, UserTurn)][-1]


def is_fork(request: ChatRequest) -> bool:
    return any(isinstance(told, UserTurn) and PREAMBLE in told.text for told in request.messages)


def play(request: ChatRequest) -> Sequence[ScriptLine]:
    said = last_said(request)
    after_call = isinstance(request.messages[-1], ToolTurn)
    if is_fork(request):
        if said.endswith("wait for it"):
            return [say("Waited.")] if after_call else [call("gate")]
        return [say(f"The fork did: {said.splitlines()[-1]}")]
    if after_call:
        return [say("Ok.")]
    match said:
        case "look":
            return [call("echo", text="a sparrow")]
        case "fork":
            return [say("I fork."), launch_task("Forked", "find the nest", fork=True)]
        case "fork and wait":
            return [launch_task("Forked", "wait for it", fork=True)]
        case "list":
            return [call("asyncagents_list")]
        case _:
            return [say("Told.")]


class Nest:
    def __init__(self, runtime: Runtime, session_id: SessionId, model: WindowModel) -> None:
        self.runtime = runtime
        self.session_id = session_id
        self.model = model

    async def prompt(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.runtime.prompt(self.session_id, text)

    @property
    def forks(self) -> list[ChatRequest]:
        return [request for request in self.model.requests if is_fork(request)]


@asynccontextmanager
async def nest(data: Path, *tools: Any, session_id: SessionId | None = None) -> AsyncIterator[Nest]:
    model = WindowModel(Window(), play)
    async with open_runtime(
        data, model=model, tools=[ECHO, *tools], delegation=True, policy=allow_all
    ) as runtime:
        found = session_id or (await runtime.create_session(directory=data)).id
        yield Nest(runtime, found, model)


@pytest.mark.spec("T-11", "T-01")
async def test_a_fork_reads_its_parents_history_then_the_preamble_then_its_task(tmp_path: Path) -> None:
    async with nest(tmp_path) as at:
        await at.prompt("look")
        await at.prompt("fork")
        await wait_until_quiet(at.runtime, at.session_id)
        task = await task_named(at.runtime, "Forked")
        child = await at.runtime.session(task.session_id)
        entries = await at.runtime.messages(at.session_id)
    (asked,) = at.forks
    before = next(r for r in at.model.requests if not is_fork(r) and last_said(r) == "fork")
    assert list(asked.messages[: len(before.messages)]) == list(before.messages)
    (own,) = asked.messages[len(before.messages) :]
    assert isinstance(own, UserTurn)
    assert own.text.startswith(PREAMBLE)
    assert own.text.endswith("find the nest")
    assert "I fork." not in str(asked.messages)
    assert task.is_forked is True
    assert task.parent_session_id == at.session_id
    assert child.parent_id == at.session_id
    assert task.status == "completed"
    assert task.result == "The fork did: find the nest"
    launched = [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)][-1]
    assert isinstance(launched, ToolCompleted)
    assert "forked" in launched.output
    assert len(find_notices(entries)) == 1


@pytest.mark.spec("T-11")
async def test_the_preamble_of_a_fork_is_not_visible_to_people(tmp_path: Path) -> None:
    async with nest(tmp_path) as at:
        await at.prompt("look")
        await at.prompt("fork")
        await wait_until_quiet(at.runtime, at.session_id)
        entries = await at.runtime.messages((await task_named(at.runtime, "Forked")).session_id)
    (own,) = [entry for entry in entries if any(_starts(part, PREAMBLE) for part in entry.parts)]
    assert visible_texts(own) == ["find the nest"]
    texts = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert [isinstance(part.state, ToolCompleted) for part in texts] == [True]


def _starts(part: object, text: str) -> bool:
    return isinstance(part, TextPart) and part.text.startswith(text)


@pytest.mark.spec("T-10", "T-11")
async def test_a_fork_is_listed_as_such(tmp_path: Path) -> None:
    async with nest(tmp_path) as at:
        await at.prompt("fork")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("list")
        task = await task_named(at.runtime, "Forked")
    listed = [told.output for told in at.model.requests[-1].messages if isinstance(told, ToolTurn)][-1]
    assert listed.startswith(f"{task.session_id} (forked) completed ")


@pytest.mark.spec("T-11", "T-14")
async def test_a_fork_keeps_its_inherited_history_after_a_restart(tmp_path: Path) -> None:
    first, second = Gate("gate", effect="idempotent"), Gate("gate", effect="idempotent")
    async with nest(tmp_path, first.tool) as at:
        await at.prompt("look")
        await at.prompt("fork and wait")
        await first.until_started()
    (before,) = at.forks
    second.go.set()
    async with nest(tmp_path, second.tool, session_id=at.session_id) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        task = await task_named(again.runtime, "Forked")
    after = again.forks[-1]
    assert list(after.messages[: len(before.messages)]) == list(before.messages)
    assert [type(told) for told in after.messages[len(before.messages) :]] == [ModelTurn, ToolTurn]
    assert task.status == "completed"
    assert task.result == "Waited."
    assert task.is_forked is True


@pytest.mark.spec("T-11", "T-08")
async def test_a_fork_can_be_resumed_and_counts_only_its_own_calls(tmp_path: Path) -> None:
    async with nest(tmp_path) as at:
        await at.prompt("look")
        await at.prompt("fork")
        await wait_until_quiet(at.runtime, at.session_id)
        task = await task_named(at.runtime, "Forked")
        await at.runtime.tasks.resume(task.session_id, "and the eggs")
        await wait_until_quiet(at.runtime, at.session_id)
        after = await task_named(at.runtime, "Forked")
    assert task.progress is not None
    assert task.progress.tool_calls == 0
    assert after.result == "The fork did: and the eggs"
    assert after.resume_count == 1
    assert after.is_forked is True
    assert "a sparrow" in str(at.forks[-1].messages)


@pytest.mark.spec("T-11")
async def test_a_fork_does_not_change_its_parents_messages(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with nest(tmp_path, gate.tool) as at:
        await at.prompt("look")
        await at.prompt("fork and wait")
        await gate.until_started()
        before = await at.runtime.messages(at.session_id)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        after = await at.runtime.messages(at.session_id)
    assert after[: len(before)] == before
    assert len(find_notices(after)) == 1
