"""What a tool knows while it runs: that it shall end, where it is, and how to tell people how it gets on."""

import asyncio
import threading
from pathlib import Path

import pytest

from asyncagents import Completed, Failed, ToolContext, async_tool, tool
from asyncagents.config.config import Config
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolRunning
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.event import PartUpdated
from asyncagents.llm.scripted import call, say
from tests.support.git import create_repository
from tests.support.runtime import open_stage
from tests.support.wait import PATIENCE


@pytest.mark.spec("A-09")
async def test_an_abort_sets_the_abort_event_of_a_tool_in_a_thread(tmp_path: Path) -> None:
    started, ended = threading.Event(), threading.Event()

    @tool
    def waits(context: ToolContext) -> str:
        """Wait."""
        started.set()
        if context.abort.wait(PATIENCE):
            ended.set()
        return "late"

    async with open_stage(tmp_path, {"go": [[call("waits")], [say("Ok.")]]}, tools=[waits]) as at:
        await at.runtime.send(at.session_id, "go")
        await asyncio.to_thread(started.wait, PATIENCE)
        assert await at.abort()
        assert await asyncio.to_thread(ended.wait, PATIENCE)


@pytest.mark.spec("A-09")
async def test_a_timeout_sets_the_abort_event_of_a_thread_and_the_turn_goes_on(tmp_path: Path) -> None:
    heard: list[bool] = []

    @tool(timeout=0.05)
    def waits(context: ToolContext) -> str:
        """Wait."""
        heard.append(context.abort.wait(PATIENCE))
        return "late"

    async with open_stage(tmp_path, {"go": [[call("waits")], [say("Ok.")]]}, tools=[waits]) as at:
        assert (await at.prompt("go")).text == "Ok."
        (state,) = await at.states()
    assert heard == [True]
    assert isinstance(state, ToolFailed)
    assert "timed out" in state.error


@pytest.mark.spec("A-09")
async def test_metadata_of_a_tool_is_published_at_once_and_kept_with_its_result(tmp_path: Path) -> None:
    go = threading.Event()

    @tool
    def works(context: ToolContext) -> Completed:
        """Work."""
        context.metadata({"percent": 50, "kept": True}, title="Half")
        go.wait(PATIENCE)
        return Completed("done", metadata={"percent": 100})

    @tool
    async def fails(context: ToolContext) -> Failed:
        """Fail."""
        context.metadata({"percent": 10})
        return Failed("broke")

    script = {"go": [[call("works")], [call("fails")], [say("Ok.")]]}
    async with open_stage(tmp_path, script, tools=[works, fails]) as at:
        await at.runtime.send(at.session_id, "go")
        shown = await at.listener.until(PartUpdated, _is_half_done)
        go.set()
        await at.runtime.wait(at.session_id)
        done, broke = await at.states()
    assert isinstance(shown.part, ToolPart)
    assert isinstance(shown.part.state, ToolRunning)
    assert shown.part.state.metadata == {"percent": 50, "kept": True}
    assert isinstance(done, ToolCompleted)
    assert done.title == "Half"
    assert done.metadata == {"percent": 100, "kept": True}
    assert isinstance(broke, ToolFailed)
    assert broke.metadata == {"percent": 10}


def _is_half_done(event: PartUpdated) -> bool:
    state = event.part.state if isinstance(event.part, ToolPart) else None
    return isinstance(state, ToolRunning) and state.title == "Half"


async def test_metadata_that_cannot_be_stored_fails_the_call(tmp_path: Path) -> None:
    @tool
    def works(context: ToolContext) -> str:
        """Work."""
        context.metadata({"lock": threading.Lock()})
        return "never"

    async with open_stage(tmp_path, {"go": [[call("works")], [say("Ok.")]]}, tools=[works]) as at:
        assert (await at.prompt("go")).text == "Ok."
        (state,) = await at.states()
    assert isinstance(state, ToolFailed)
    assert "no JSON form" in state.error


@pytest.mark.spec("A-09")
async def test_a_tool_knows_the_directory_and_the_root_of_its_project(tmp_path: Path) -> None:
    @tool
    async def where(context: ToolContext) -> list[str]:
        """Say where."""
        return [context.directory, context.worktree]

    root = tmp_path / "project"
    create_repository(root, {"inner/x": ""})
    config = Config(data_dir=tmp_path / "data")
    script = {"go": [[call("where")], [say("Ok.")]]}
    async with open_stage(
        tmp_path / "data", script, tools=[where], coding=config, directory=root / "inner"
    ) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    assert state.output == f'["{root}/inner","{root}"]'


@pytest.mark.spec("A-06")
async def test_an_async_tool_waits_as_a_row_until_its_result_is_given(tmp_path: Path) -> None:
    orders: list[str] = []

    @async_tool(seconds=60)
    async def deploy(target: str, context: ToolContext) -> str:
        """Deploy."""
        orders.append(context.pending_id)
        return f"Deploying to {target}."

    async with open_stage(
        tmp_path, {"go": [[call("deploy", target="prod")], [say("Up.")]]}, tools=[deploy]
    ) as at:
        await at.prompt("go")
        assert isinstance(await at.status(), WaitingAsync)
        waiting = await at.open_call()
        assert orders == [waiting.id]
        assert (waiting.open and waiting.open.note) == "Deploying to prod."
        await at.runtime.complete(waiting.id, "it is up")
        await at.runtime.wait(at.session_id)
        *_, last = await at.messages()
    assert last.text == "Up."
