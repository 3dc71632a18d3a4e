"""The wait tool: a timer that outlives its process, says what it was told to, ends when somebody speaks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents import Idle, PermissionAsked, SessionIdle, WaitingAsync, call, say, wait_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.call.call import WAIT_ENDED
from asyncagents.domain.call.reply import utc_time
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.clock import EPOCH_MS, FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, open_sqlite_runtime, open_stage
from tests.support.wait import PATIENCE

HOUR = 3_600_000
AT = utc_time(EPOCH_MS + HOUR)
LATE = "It had been over for 3h 0m 5s when somebody was there to say so."


def told(model: ScriptedModel) -> list[str]:
    return [said.output for said in model.requests[-1].messages if isinstance(said, ToolTurn)]


def script(**given: Any) -> ScriptedModel:
    return ScriptedModel({"go": [[call("wait", **given)], [say("Going on.")]], "hey": [[say("Yes?")]]})


async def after(data: Path, model: ScriptedModel, ms: int) -> list[str]:
    """A session begins to wait, nobody is there for a while, and the directory is opened again."""
    clock = FakeClock()
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with asyncio.timeout(PATIENCE):
        async with open_sqlite_runtime(data, setup, clock=clock) as runtime:
            session = await runtime.create_session(directory=data)
            await runtime.prompt(session.id, "go")
            assert isinstance(await runtime.status(session.id), WaitingAsync)
        clock.advance(ms)
        async with open_sqlite_runtime(data, setup, clock=clock) as runtime:
            with inside(runtime).bus.subscribe() as subscription:
                if await runtime.status(session.id) != Idle():
                    await EventListener(subscription).until(SessionIdle)
    return told(model)


@pytest.mark.spec("C-03", "P-07")
async def test_a_timer_reports_its_time_and_its_reminder(tmp_path: Path) -> None:
    said = await after(tmp_path, script(seconds=3600, reminder="Look at the build."), HOUR)

    assert said == [f"The wait is over. It was until {AT}.\n\nYou wanted to be told: Look at the build."]


@pytest.mark.spec("P-07")
async def test_a_timer_expires_at_once_when_the_clock_is_set_forward(tmp_path: Path) -> None:
    """Nobody waits for the next look at all that is due, which comes twice a minute."""
    clock, model = FakeClock(), script(seconds=3600)
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "go")
            clock.advance(HOUR)
            await EventListener(subscription).until(SessionIdle)
    assert told(model) == [f"The wait is over. It was until {AT}."]


@pytest.mark.spec("P-07", "P-08")
async def test_a_timer_that_expired_while_no_process_ran_reports_its_delay(tmp_path: Path) -> None:
    said = await after(tmp_path, script(until="2023-11-15T00:13:20+01:00"), 4 * HOUR + 5_000)

    assert said == [f"The wait is over. It was until {AT}.\n\n{LATE}"]


async def test_a_time_is_kept_to_the_millisecond(tmp_path: Path) -> None:
    clock, model = FakeClock(), script(until="2023-11-15T00:13:20.125+01:00")
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        status = await runtime.status(session.id)

    assert isinstance(status, WaitingAsync)
    assert status.timeout == EPOCH_MS + HOUR + 125


@pytest.mark.spec("C-03")
async def test_a_prompt_ends_the_wait(tmp_path: Path) -> None:
    model = script(seconds=3600, reminder="Look.")
    async with open_stage(tmp_path, model, tools=[wait_tool()]) as at:
        await at.prompt("go")
        waiting = await at.open_call()
        answer = await at.prompt("hey")

    assert waiting.open is not None
    assert waiting.open.note.startswith("until 2")
    assert waiting.open.note.endswith(" UTC: Look.")
    assert answer.text == "Yes?"
    assert told(model) == [WAIT_ENDED]


async def test_a_wait_is_ended_from_outside_as_any_pending_call(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script(seconds=3600), tools=[wait_tool()]) as at:
        await at.prompt("go")
        (pending,) = await at.runtime.async_tools.waiting_calls(at.session_id)
        await at.runtime.async_tools.submit_result(pending.id, "It is ready before its time.")
        await at.listener.until(SessionIdle)

    assert told(at.model) == ["It is ready before its time."]


async def test_a_wait_until_a_past_time_ends_at_once(tmp_path: Path) -> None:
    model = script(until="2023-11-14T22:13:00Z", reminder="Too late?")
    async with open_stage(tmp_path, model, tools=[wait_tool(FakeClock())]) as at:
        answer = await at.prompt("go")

    assert answer.text == "Going on."
    (said,) = told(model)
    assert said.startswith("The wait is over. 2023-11-14 22:13:00 UTC was already 20s ago.")
    assert said.endswith("You wanted to be told: Too late?")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "either seconds or until"),
        ({"seconds": 5, "until": "2030-01-01T00:00:00Z"}, "either seconds or until"),
        ({"seconds": 0}, "from 1 to"),
        ({"seconds": -5}, "from 1 to"),
        ({"seconds": 1e300}, "from 1 to"),
        ({"seconds": "5"}, "do not fit wait"),
        ({"until": "tomorrow"}, "no time"),
        ({"until": ""}, "no time"),
        ({"until": "2030-01-01T00:00:00"}, "any time zone"),
        ({"until": "2030-01-01"}, "any time zone"),
        ({"until": "2999-01-01T00:00:00Z"}, "a year at most"),
        ({"until": "9999-12-31T23:59:59-23:59"}, "a year at most"),
        ({"seconds": 5, "reminder": "x" * 4001}, "do not fit wait"),
    ],
    ids=str,
)
async def test_a_wait_with_invalid_arguments_is_an_error_for_the_model(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    async with open_stage(tmp_path, script(**given), tools=[wait_tool()]) as at:
        answer = await at.prompt("go")

    assert answer.text == "Going on."
    assert words in told(at.model)[0]


async def test_a_wait_until_the_first_year_of_the_calendar_ends_at_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script(until="0001-01-01T00:00:00+23:59"), tools=[wait_tool()]) as at:
        await at.prompt("go")

    assert "was already" in told(at.model)[0]


async def test_a_repeated_wait_does_not_ask_for_doom_loop(tmp_path: Path) -> None:
    steps = [[call("wait", seconds=3600)] for _ in range(4)]
    model = ScriptedModel({"go": [*steps, [say("Enough.")]]})
    async with open_stage(tmp_path, model, tools=[wait_tool()]) as at:
        await at.runtime.send(at.session_id, "go")
        for _ in steps:
            await at.listener.until_status(WaitingAsync)
            (pending,) = await at.runtime.async_tools.waiting_calls(at.session_id)
            await at.runtime.async_tools.submit_result(pending.id, "go on")
        await at.listener.until(SessionIdle)

    assert told(model) == ["go on"] * 4


async def test_a_repeated_wait_until_a_past_time_asks_for_doom_loop(tmp_path: Path) -> None:
    model = ScriptedModel({"go": [[call("wait", until="2023-01-01T00:00:00Z")] for _ in range(3)]})
    async with open_stage(tmp_path, model, tools=[wait_tool()]) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)

    assert asked.request.permission == "doom_loop"
