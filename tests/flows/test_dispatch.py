"""Who runs when: more sessions than places, and more than a page of them, all get their turn."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.event import SessionIdle
from asyncagents.engine import dispatcher
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, open_runtime, open_stage
from tests.support.tool import Gate
from tests.support.wait import PATIENCE


async def test_sessions_beyond_the_number_of_places_run_when_one_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_RUNS", 2)
    gate = Gate("gate")
    script = {f"go {n}": [[call("gate")], [say("Done.")]] for n in range(7)}
    async with open_stage(tmp_path, script, tools=[gate.tool]) as at:
        sessions = [await at.runtime.create_session(directory=tmp_path) for _ in range(7)]
        prompts = [
            asyncio.ensure_future(at.runtime.prompt(session.id, text))
            for session, text in zip(sessions, script, strict=True)
        ]
        await gate.until_started()
        busy = at.runtime.live
        gate.go.set()
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*prompts)

    assert busy <= 2
    assert [answer.text for answer in answers] == ["Done."] * 7


async def test_sessions_with_unanswered_prompts_are_run_page_by_page_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "PAGE_SIZE", 2)
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        sessions = [await runtime.create_session(directory=tmp_path) for _ in range(5)]
        for session in sessions:
            await runtime.send(session.id, "hello", key="k")
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime, asyncio.timeout(PATIENCE):
        answers = [await runtime.prompt(session.id, "hello", key="k") for session in sessions]

    assert [answer.text for answer in answers] == ["ok"] * 5


async def test_a_session_is_live_only_while_it_has_something_to_do(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, {"go": [[call("gate")]]}, tools=[gate.tool]) as at:
        assert at.runtime.live == 0
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        assert at.runtime.live == 1
        gate.go.set()
        await at.listener.until(SessionIdle)


async def test_a_wake_while_a_run_ends_is_not_lost(tmp_path: Path) -> None:
    """Prompts fall into every phase of the turns before them."""
    async with open_runtime(tmp_path, model=ScriptedModel({})) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            for ticks in range(40):
                await runtime.send(session.id, f"number {ticks}")
                for _ in range(ticks):
                    await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                await runtime.prompt(session.id, "last")
            await listener.until(SessionIdle)
