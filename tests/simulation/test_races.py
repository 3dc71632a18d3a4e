"""Races between tasks that the big simulation found, each played on its own, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.call import Call, Failed, Settled
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from asyncagents.testing.clock import SeededRng
from asyncagents.testing.inside import inside
from asyncagents.testing.process import Machine, Odds, Process
from asyncagents.testing.simloop import SimLoop

LONG = 10_000


class Stand:
    """One machine; its processes come and go."""

    def __init__(self, path: Path, seed: int, setup: Setup) -> None:
        self._machine = Machine(path / f"{seed}.db", seed, Odds(SeededRng(seed)))
        self._setup = setup
        self._number = 0

    async def start(self, group: asyncio.TaskGroup) -> tuple[Process, Runtime]:
        self._number += 1
        process = Process(self._machine, self._number, lambda process: self._setup)
        group.create_task(process.live())
        await process.started.wait()
        assert process.runtime is not None
        return process, process.runtime


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Time is virtual, and a loop that never ends is an error of its own."""
    while not await holds():  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(0.1)


def _setup(script: ScriptedModel, limits: DelegationConfig) -> Setup:
    return Setup(model=script, open_workplaces=fixed_tools((), lambda ask, context: "allow", limits))


def _launch(name: str) -> dict[str, str]:
    return {"description": name, "prompt": name, "agent": "general"}


@pytest.mark.spec("D-10", "T-14")
def test_a_task_and_one_below_it_that_are_overdue_after_a_downtime_both_end(tmp_path: Path) -> None:
    """The second cancel of one transaction failed, and with it every sweep from then on."""
    script = ScriptedModel(
        {
            "go": [[call("asyncagents_task", **_launch("above"))], [say("I wait")], [say("so be it")]],
            "above": [[call("asyncagents_task", **_launch("below"))], [pause(LONG), say("never")]],
            "below": [[pause(LONG), say("never")]],
        }
    )
    stand = Stand(tmp_path, 1, _setup(script, DelegationConfig(seconds=30)))

    async def play() -> list[tuple[str, str | None]]:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            session = await runtime.create_session(directory="/project")
            await runtime.send(session.id, "go")
            await until(lambda: _count(runtime, 2))
            process.crash()
            await asyncio.sleep(100)
            process, runtime = await stand.start(group)
            await until(lambda: _ended(runtime, session.id))
            tasks = await runtime.tasks.list(session.id)
            process.stop()
        return [(task.description, task.ended_by) for task in tasks]

    assert SimLoop(1, max_steps=20_000).run(play) == [("above", "deadline"), ("below", "deadline")]


@pytest.mark.spec("T-05", "T-09")
def test_a_follow_up_to_a_task_that_is_being_cleared_fails_its_call(tmp_path: Path) -> None:
    """Which of the two calls comes first is up to the loop."""
    told = [_cleared_and_followed(tmp_path, seed) for seed in range(6)]
    assert all("the task was cleared" in error or error.startswith("<task_error") for error in told)
    assert any("the task was cleared" in error for error in told), "the clear never came in between"


def _cleared_and_followed(path: Path, seed: int) -> str:
    again = {"description": "more", "prompt": "child", "subagent_type": "general", "task_id": "ses_"}
    script = ScriptedModel(
        {
            "go": [
                [call("asyncagents_task", **_launch("child"))],
                [say("I wait")],
                [call("asyncagents_clear"), call("task", **again)],
                [say("done")],
                [say("done")],
            ],
            "child": [[say("here")], [say("here again")]],
        }
    )
    stand = Stand(path, seed, _setup(script, DelegationConfig()))

    async def play() -> Call:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            session = await runtime.create_session(directory="/project")
            await runtime.send(session.id, "go")
            await until(lambda: _followed(runtime, session.id))
            await until(lambda: _ended(runtime, session.id))
            calls = await inside(runtime).store.last_calls(session.id, 10)
            process.stop()
        return next(each for each in calls if each.tool == "task")

    state = SimLoop(seed, max_steps=20_000).run(play).state
    assert isinstance(state, Settled)
    assert isinstance(state.result, Failed)
    return state.result.error


async def _count(runtime: Runtime, many: int) -> bool:
    return len(await runtime.tasks.list()) == many


async def _followed(runtime: Runtime, session_id: SessionId) -> bool:
    return any(each.tool == "task" for each in await inside(runtime).store.last_calls(session_id, 10))


async def _ended(runtime: Runtime, session_id: SessionId) -> bool:
    return not await runtime.tasks.list(live=True) and not await runtime.statuses()
