"""Whether a process has anything left to do, and what stays if it ends."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents import ScriptedModel, call, say, wait_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import Config
from asyncagents.domain.conversation.status import Busy, Retry
from asyncagents.engine.runtime.rest_check import HORIZON_MS, Remainder
from asyncagents.llm.scripted import fail
from asyncagents.testing.clock import FakeClock
from tests.support.delegation import launch_task, open_delegation_stage, wait_until_quiet
from tests.support.runtime import open_runtime, open_sqlite_runtime, open_stage
from tests.support.tool import CAREFUL, Gate, build_pending_tool
from tests.support.wait import PATIENCE, wait_until
from tests.support.webhook.receiver import LOCAL_WEBHOOKS

NOTHING = Remainder(asks=0, pending=0, stuck=0, next_due=None)


async def test_a_session_that_rests_is_no_work(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hi": [[say("Hello.")]]}) as at:
        await at.prompt("hi")
        await wait_until_quiet(at.runtime, at.session_id)
        assert not await at.runtime.rest_check.has_work()
        assert await at.runtime.rest_check.remainder() == NOTHING


async def test_a_background_task_is_work_although_its_parent_rests(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes = {"go": [[launch_task("A", "a")], [say("Off.")]], "a": [[call("gate")], [say("Done.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        assert await at.runtime.rest_check.has_work()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        assert not await at.runtime.rest_check.has_work()


async def test_a_prompt_that_no_process_has_taken_up_is_work(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        await runtime.begin("hi", directory=tmp_path)
        assert await runtime.rest_check.has_work()


async def test_a_backoff_is_work_however_long_it_takes(tmp_path: Path) -> None:
    scenes = {"hi": [[fail("quota", retryable=True, status=429, retry_after=20 * 3600)]]}
    async with open_stage(tmp_path, scenes) as at:
        await at.runtime.send(at.session_id, "hi")
        await at.listener.until_status(Retry)

        async def is_parked() -> bool:
            return not at.runtime.live

        await wait_until(is_parked)
        assert await at.runtime.rest_check.has_work()
        await at.abort()
        assert not await at.runtime.rest_check.has_work()


@pytest.mark.parametrize(("seconds", "is_work"), [(1800, True), (3 * 3600, False)])
async def test_a_timer_is_work_if_it_is_due_within_the_hour(
    tmp_path: Path, seconds: int, is_work: bool
) -> None:
    clock = FakeClock()
    model = ScriptedModel({"go": [[call("wait", seconds=seconds)], [say("Going on.")]]})
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with asyncio.timeout(PATIENCE), open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        assert await runtime.rest_check.has_work() == is_work
        left = await runtime.rest_check.remainder()
        assert left.next_due == clock.now() + seconds * 1000
        clock.advance(seconds * 1000 - HORIZON_MS)
        assert await runtime.rest_check.has_work()


async def test_an_ask_is_no_work_and_stays(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[call("careful", text="x")]]}, tools=[CAREFUL]) as at:
        await at.runtime.send(at.session_id, "go")
        await wait_until_quiet(at.runtime, at.session_id)
        assert not await at.runtime.rest_check.has_work()
        assert (await at.runtime.rest_check.remainder()).asks == 1
        await at.abort()


async def test_a_pending_call_is_no_work_and_its_webhook_is(tmp_path: Path) -> None:
    """Nobody listens where the webhook goes, so it is owed and tried again."""
    tool = build_pending_tool("deploy", webhook_url="http://127.0.0.1:9/hook")
    scenes = {"go": [[call("deploy")], [say("Shipped.")]]}
    async with open_stage(tmp_path, scenes, tools=[tool], async_tools=LOCAL_WEBHOOKS) as at:
        await at.prompt("go")
        (waits,) = await at.runtime.async_tools.waiting_calls()
        assert not await at.runtime.rest_check.has_work()
        assert (await at.runtime.rest_check.remainder()).pending == 1
        await at.runtime.complete(waits.id, "up")
        await wait_until_quiet(at.runtime, at.session_id)
        assert await at.runtime.rest_check.has_work()


async def test_a_session_that_lacks_a_model_is_no_work_and_stays(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        session, _ = await runtime.begin("hi", directory=tmp_path)
    async with open_runtime(tmp_path, config=Config(data_dir=tmp_path), needs_model=False) as runtime:
        assert isinstance(await runtime.status(session.id), Busy)
        assert not await runtime.rest_check.has_work()
        assert (await runtime.rest_check.remainder()).stuck == 1


async def test_a_session_that_cannot_be_read_is_no_work_and_stays(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        session, _ = await runtime.begin("hi", directory=tmp_path)
        with closing(sqlite3.connect(tmp_path / "asyncagents.db")) as other, other:
            other.execute("UPDATE session SET info = '{no' WHERE id = ?", (session.id,))
        assert not await runtime.rest_check.has_work()
        assert (await runtime.rest_check.remainder()).stuck == 1
