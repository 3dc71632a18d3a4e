"""A fork of a real session is what its model was told when it made the forking call."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from asyncagents import Completed, Tool, ToolContext
from asyncagents.delegation.fork import ForkedHistory, fork_history
from asyncagents.delegation.fork_copy import UNDER_WAY
from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.window import Window
from asyncagents.engine.model_input import SUMMARISED
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.model import ChatRequest, ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptLine, call, say
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.testing.inside import inside
from tests.support.compaction import CompactionStage, open_compaction_stage, request_text
from tests.support.domain.history import request_messages
from tests.support.model import WindowModel
from tests.support.tool import NoArguments, build_pending_tool
from tests.support.wait import PATIENCE


class Forker:
    """A tool that keeps the fork of the session that calls it."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.made: list[ForkedHistory] = []
        self.tool: Tool[NoArguments] = Tool("fork", NoArguments, self._run, effect="none")

    async def _run(self, args: NoArguments, context: ToolContext) -> Completed:
        assert self.runtime is not None
        read = await inside(self.runtime).store.model_history(context.session_id, whole=True)
        self.made.append(
            fork_history(
                read.head,
                read.entries,
                before=context.message_id,
                to=SessionId("ses_child"),
                ids=Ids(FakeClock(), SeededRng(1)),
                shown=read.shown,
            )
        )
        return Completed("forked")


def work(request: ChatRequest) -> Sequence[ScriptLine]:
    """Does what the newest prompt says; with a result it is content."""
    if isinstance(request.messages[-1], ToolTurn):
        return [say("done")]
    match request_text(request).splitlines()[-1]:
        case "fork":
            return [say("I fork."), call("fork")]
        case "start the job":
            return [call("job")]
        case _:
            return [say("ok")]


async def _drive(at: CompactionStage, forker: Forker, *prompts: str) -> None:
    forker.runtime = at.runtime
    for prompt in prompts:
        await at.prompt(prompt)


@pytest.mark.spec("T-11")
async def test_a_fork_equals_the_messages_of_the_forking_request(tmp_path: Path) -> None:
    forker, model = Forker(), WindowModel(Window(), work)
    async with open_compaction_stage(tmp_path, model, forker.tool) as at:
        await _drive(at, forker, "hello", "fork", "again", "fork")
    forking = [step for step in model.steps if request_text(step).splitlines()[-1] == "fork"][::2]
    assert len(forker.made) == len(forking) == 2
    for fork, request in zip(forker.made, forking, strict=True):
        assert request_messages(fork.entries) == list(request.messages)


@pytest.mark.spec("T-11")
async def test_a_pending_call_is_closed_in_a_fork_and_its_late_result_occurs_once(tmp_path: Path) -> None:
    forker, model = Forker(), WindowModel(Window(), work)
    async with open_compaction_stage(tmp_path, model, forker.tool, build_pending_tool("job")) as at:
        await _drive(at, forker, "start the job")
        (pending,) = await at.runtime.open_calls(at.session_id)
        await _drive(at, forker, "fork")
        async with asyncio.timeout(PATIENCE):
            await at.runtime.complete(pending.id, "forty-two")
            await at.runtime.wait(at.session_id)
        await _drive(at, forker, "fork")
    before, after = (request_messages(fork.entries) for fork in forker.made)
    assert [said.output for said in before if isinstance(said, ToolTurn)] == [UNDER_WAY]
    assert str(after).count("forty-two") == 1
    forking = [step for step in model.steps if request_text(step).splitlines()[-1] == "fork"]
    assert after == list(forking[-2].messages)


@pytest.mark.spec("T-11")
async def test_a_fork_begins_with_the_last_summary(tmp_path: Path) -> None:
    forker, model = Forker(), WindowModel(Window(), work)
    async with open_compaction_stage(tmp_path, model, forker.tool, build_pending_tool("job")) as at:
        await _drive(at, forker, "a first thing", "start the job")
        await at.compact()
        await _drive(at, forker, "fork")
    (fork,) = forker.made
    head, summary, *rest = request_messages(fork.entries)
    (request,) = [step for step in model.steps if request_text(step).splitlines()[-1] == "fork"][:1]
    assert isinstance(head, UserTurn)
    assert head.text.endswith(SUMMARISED)
    assert "Calls that are still pending" in head.text
    assert isinstance(summary, ModelTurn)
    assert summary.text.startswith("Summary of ")
    assert rest == list(request.messages[1:])
    assert rest
