"""A runtime without a model: what waits for one is left as it is, what needs none is seen to."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from asyncagents import Idle, Runtime, WaitingAsync, call, say
from asyncagents.config.config import Config
from asyncagents.domain.conversation.status import Busy
from asyncagents.errors import InvalidInput
from asyncagents.llm.roster import NO_MODEL
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.inside import inside
from tests.support.runtime import open_runtime
from tests.support.tool import build_pending_tool
from tests.support.wait import PATIENCE, wait_until

SCRIPT = {"hi": [[say("Hello.")]], "ship": [[call("deploy")], [say("Shipped.")]]}


def with_model(data: Path) -> AbstractAsyncContextManager[Runtime]:
    return open_runtime(data, model=ScriptedModel(SCRIPT), tools=[build_pending_tool("deploy")])


def without_model(data: Path) -> AbstractAsyncContextManager[Runtime]:
    return open_runtime(
        data, config=Config(data_dir=data), tools=[build_pending_tool("deploy")], needs_model=False
    )


@pytest.mark.spec("A-10")
async def test_a_result_without_a_model_is_stored_and_used_by_the_next_runtime(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with with_model(tmp_path) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "ship")
            assert isinstance(await runtime.status(session.id), WaitingAsync)
            (pending,) = await runtime.open_calls(session.id)
        async with without_model(tmp_path) as runtime:
            await runtime.complete(pending.id, "up")
            await inside(runtime).dispatcher.sweep()
            why = await runtime.tasks.why(session.id)
            assert isinstance(await runtime.status(session.id), Busy)
            await wait_until(lambda: runtime.live == 0)
        async with with_model(tmp_path) as runtime:
            await runtime.wait(session.id)
            entries = await runtime.messages(session.id)
    assert why.code == "no_model"
    assert NO_MODEL in why.sentence
    assert entries[-1].text == "Shipped."


@pytest.mark.spec("A-10", "C-10")
async def test_an_abort_ends_a_turn_that_waits_for_a_model(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        async with open_runtime(tmp_path, model=ScriptedModel(SCRIPT), serve=False) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.send(session.id, "hi")
        async with without_model(tmp_path) as runtime:
            await inside(runtime).dispatcher.sweep()
            before = await runtime.tasks.why(session.id)
            assert await runtime.abort(session.id)
            status = await runtime.status(session.id)
    assert before.code == "no_model"
    assert status == Idle()


@pytest.mark.spec("A-10")
async def test_a_prompt_is_refused_before_anything_is_stored_and_a_repeat_gets_its_answer(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with with_model(tmp_path) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            first = await runtime.prompt(session.id, "hi", key="k")
        async with without_model(tmp_path) as runtime:
            again = await runtime.prompt(session.id, "hi", key="k")
            for refused in (runtime.send(session.id, "more"), runtime.compact(session.id)):
                with pytest.raises(InvalidInput, match="there is no model to ask"):
                    await refused
            with pytest.raises(InvalidInput, match="there is no model to ask"):
                await runtime.begin("more", directory=tmp_path)
            entries = await runtime.messages(session.id)
            sessions = await runtime.sessions(tmp_path)
    assert again == first
    assert len(entries) == 2
    assert len(sessions) == 1
