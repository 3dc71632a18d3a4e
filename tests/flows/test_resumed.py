"""Whoever listened when a server died is told, by the next one, how it went on with what was under way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents import SessionId
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock
from asyncagents.domain.event import PermissionAsked
from asyncagents.engine.event.replay import REPLAY_MS
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from asyncagents.testing.clock import FakeClock
from tests.support.delegation import open_delegation_stage
from tests.support.http.server import serve_runtime
from tests.support.runtime import open_runtime, open_sqlite_runtime, open_stage, wait_until_idle
from tests.support.store.row import spoil_row
from tests.support.tool import CAREFUL
from tests.support.wait import PATIENCE

CUT: dict[str, Any] = {"go": [[say("I beg"), pause(3600)]]}
ANSWER: dict[str, Any] = {"go": [[say("Here.")]]}


async def cut_off(data: Path) -> SessionId:
    """A session in whose answer the process ended."""
    async with open_stage(data, CUT) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
    return at.session_id


async def heard(runtime: Runtime, data: Path, path: str = "/event") -> list[Any]:
    """All that a new listener is told, up to a session that is made once he listens."""
    events: list[Any] = []
    mark = ""
    async with (
        serve_runtime(runtime, data) as caller,
        caller.stream(path, headers=caller.authorization) as listener,
        asyncio.timeout(PATIENCE),
    ):
        while (found := await listener.next()) is not None:
            event = found.data.get("payload", found.data)
            if event["type"] == "server.connected":
                mark = (await runtime.create_session(directory=data)).id
            elif event["properties"]["sessionID"] == mark:
                return events
            else:
                events.append(event)
    raise AssertionError("the stream ended")


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("path", ["/event", "/global/event"])
async def test_a_new_listener_gets_the_answer_given_since_the_restart(tmp_path: Path, path: str) -> None:
    session_id = await cut_off(tmp_path)
    async with open_runtime(tmp_path, model=ScriptedModel(ANSWER)) as runtime:
        await wait_until_idle(runtime, session_id)
        events = await heard(runtime, tmp_path, path)

    told = [event["properties"] for event in events]
    assert {each["sessionID"] for each in told} == {session_id}
    assert "Here." in [each["part"].get("text") for each in told if "part" in each]
    assert "stop" in [each["info"].get("finish") for each in told if "info" in each]
    assert {"session.status", "session.idle"} <= {event["type"] for event in events}


@pytest.mark.spec("X-01")
async def test_a_new_listener_gets_events_of_a_parent_that_waited_for_its_child(tmp_path: Path) -> None:
    scenes: Any = {"go": [[call("task", description="look", prompt="child", subagent_type="general")]]}
    async with open_delegation_stage(tmp_path, {**scenes, "child": [[say("I beg"), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
    told = {"go": [*scenes["go"], [say("It has looked.")]], "child": [[say("Nothing.")]]}
    async with open_delegation_stage(tmp_path, told) as again:
        await wait_until_idle(again.runtime, at.session_id)
        events = await heard(again.runtime, tmp_path)

    texts = {event["properties"]["part"].get("text") for event in events if "part" in event["properties"]}
    assert {"It has looked.", "Nothing."} <= texts


@pytest.mark.spec("X-01")
async def test_an_unreadable_session_does_not_hide_events_of_another(tmp_path: Path) -> None:
    spoiled, session_id = await cut_off(tmp_path), await cut_off(tmp_path)
    spoil_row(tmp_path, spoiled, "session")
    async with open_runtime(tmp_path, model=ScriptedModel(ANSWER)) as runtime:
        await wait_until_idle(runtime, session_id)
        events = await heard(runtime, tmp_path)

    assert {event["properties"]["sessionID"] for event in events} == {session_id}


@pytest.mark.spec("X-01")
async def test_a_new_listener_gets_a_prompt_and_an_ask_since_the_restart(
    tmp_path: Path,
) -> None:
    """A terminal sends a prompt as soon as the server is there, and listens again some seconds later."""
    async with open_stage(tmp_path, ANSWER, tools=[CAREFUL]) as at:
        await at.runtime.prompt(at.session_id, "go")
    asks: Any = {"rm": [[call("careful", text="a")]]}
    async with open_runtime(tmp_path, model=ScriptedModel(asks), tools=[CAREFUL]) as runtime:
        async with runtime.events(at.session_id) as listener, asyncio.timeout(PATIENCE):
            await runtime.send(at.session_id, "rm")
            while not isinstance(await anext(listener), PermissionAsked):
                pass
        events = await heard(runtime, tmp_path)

    texts = {event["properties"]["part"].get("text") for event in events if "part" in event["properties"]}
    assert "rm" in texts
    assert "Here." not in texts
    assert "permission.asked" in {event["type"] for event in events}


@pytest.mark.spec("X-01")
async def test_sessions_at_rest_and_new_sessions_are_not_replayed_to_a_listener(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, ANSWER) as at:
        await at.runtime.prompt(at.session_id, "go")
    async with open_stage(tmp_path, ANSWER) as again:
        await again.runtime.prompt(again.session_id, "go")
        events = await heard(again.runtime, tmp_path)

    assert events == []


@pytest.mark.spec("X-01")
async def test_a_listener_after_the_replay_period_gets_no_earlier_events(tmp_path: Path) -> None:
    session_id = await cut_off(tmp_path)
    clock = FakeClock(SystemClock().now())
    setup = Setup(model=ScriptedModel(ANSWER), open_workplaces=fixed_tools([]))
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        await wait_until_idle(runtime, session_id)
        clock.advance(REPLAY_MS)
        events = await heard(runtime, tmp_path)

    assert events == []


@pytest.mark.spec("X-01")
async def test_a_new_child_of_an_older_session_is_replayed_to_a_listener(tmp_path: Path) -> None:
    async with open_stage(tmp_path, ANSWER) as at:
        await at.runtime.prompt(at.session_id, "go")
    async with open_runtime(tmp_path, model=ScriptedModel(ANSWER)) as runtime:
        child = await runtime.create_session(directory=tmp_path, parent_id=at.session_id)
        events = await heard(runtime, tmp_path)

    assert child.id in {event["properties"]["sessionID"] for event in events}
