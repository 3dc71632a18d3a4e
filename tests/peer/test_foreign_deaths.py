"""Foreign programs and our server are killed at five points of a task, and work side by side."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.errors import Conflict, NotFound
from asyncagents.testing.provider import Reply, Script
from tests.peer.foreign import PROGRAMS, ForeignProgram
from tests.peer.foreign_stage import (
    CONTINUE,
    LOOK,
    PATIENCE,
    BuildScript,
    ForeignStage,
    launching,
    open_foreign_stage,
)
from tests.support.process.npm import SECONDS
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(SECONDS + 6 * PATIENCE),
    pytest.mark.parametrize("name", PROGRAMS),
]
FAN_OUT = 6
JOBS = [f"job {number}" for number in range(FAN_OUT)]
HALF = Reply(text="Half of it. " * 200, chunks=20, hang_at=4000, times=1)
"""The model says something, and no more until its client is gone."""


def one_job(*, hangs: bool = False) -> BuildScript:
    def build(program: ForeignProgram) -> Script:
        return {
            "go": [launching("work"), Reply(text="Launched.")],
            "work": [
                *[HALF] * hangs,
                program.run_line("./note asked one && ./hold two"),
                Reply(text="It is done."),
            ],
            CONTINUE: [program.run_line("./note asked again"), Reply(text="It went on.")],
            "more": [Reply(text="There is more.")],
        }

    return build


def many_jobs(program: ForeignProgram) -> Script:
    jobs = {each: [program.run_line(f"./note asked {each}"), Reply(text=f"Did {each}.")] for each in JOBS}
    return {"go": [launching(*JOBS), Reply(text="Launched.")], **jobs}


async def starts(stage: ForeignStage, parent: SessionId) -> bool:
    return bool(stage.processes())


async def is_opened(stage: ForeignStage, parent: SessionId) -> bool:
    return bool(stage.external_sessions())


async def works(stage: ForeignStage, parent: SessionId) -> bool:
    for task in await stage.tasks(parent):
        texts = [entry.text for entry in await stage.client.messages(task.session_id)]
        return any("Half of it." in text for text in texts)
    return False


async def asks(stage: ForeignStage, parent: SessionId) -> bool:
    return bool(await stage.asks())


async def acts(stage: ForeignStage, parent: SessionId) -> bool:
    await stage.answer_all()
    return stage.has_process("./hold two")


Reached: TypeAlias = Callable[[ForeignStage, SessionId], Awaitable[bool]]
POINTS: Mapping[str, Reached] = {
    "before the session is stored": starts,
    "after the session is stored": is_opened,
    "with a prompt under way": works,
    "with an ask open": asks,
    "after the answer": acts,
}


async def reach(stage: ForeignStage, point: str) -> SessionId:
    """Begin a task, and go on to a point of its life."""
    if point != "after the answer":
        stage.let_go()
    parent = await stage.begin()
    await wait_until(lambda: POINTS[point](stage, parent), seconds=PATIENCE, pause=LOOK)
    return parent


async def end_tasks(stage: ForeignStage, parent: SessionId, count: int = 1) -> tuple[BackgroundTask, ...]:
    """Allow what is asked until all tasks have ended."""

    async def ended() -> bool:
        with suppress(Conflict, NotFound):  # the ask was settled meanwhile
            await stage.answer_all()
        tasks = await stage.tasks(parent)
        return len([each for each in tasks if each.completed_at is not None]) == count

    await wait_until(ended, seconds=PATIENCE, pause=LOOK)
    return await stage.wait_for_ends(parent, count)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("point", POINTS)
async def test_a_task_ends_once_with_an_honest_state_if_our_server_is_killed(
    name: str, point: str, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    async with open_foreign_stage(tmp_path, name, one_job(hangs=point == "with a prompt under way")) as stage:
        parent = await reach(stage, point)
        await stage.kill_server()
        await stage.wait_for_no_process()
        stage.let_go()
        await stage.start_server()
        (task,) = await end_tasks(stage, parent)
        assert len(await stage.notices(parent)) == 1
        assert stage.lines_run().count("asked one") <= 1
        in_doubt = (task.error or "").startswith("TaskInDoubt: ")
        honest = ("error", "crash") if in_doubt else ("completed", None)
        assert (task.status, task.ended_by) == honest, task
        assert await stage.client.asks() == ()
        record_property(f"{name}, server killed {point}: {task.status} {task.result or ''!s:.12}", 1)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("point", POINTS)
async def test_a_task_fails_once_if_its_program_is_killed_and_a_follow_up_goes_on(
    name: str, point: str, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    async with open_foreign_stage(tmp_path, name, one_job(hangs=point == "with a prompt under way")) as stage:
        parent = await reach(stage, point)
        stage.kill_program()
        (task,) = await stage.wait_for_ends(parent)
        if task.status == "completed":  # what it left behind may answer while it is being ended
            assert (point, task.result) == ("after the answer", "It is done."), task
        else:
            assert (task.status, task.ended_by) == ("error", None), task
            assert "The external agent foreign " in (task.error or "")
            assert "It ended with exit code" in (task.error or "")
        assert len(await stage.notices(parent)) == 1
        assert stage.processes() == []
        assert await stage.client.asks() == ()
        record_property(f"{name}, program killed {point}: {task.status}", 1)
        stage.let_go()
        await stage.client.tasks.resume(task.session_id, "more")
        (task,) = await stage.wait_for_ends(parent)
        assert (task.status, task.result) == ("completed", "There is more."), task
        assert len(await stage.notices(parent)) == 2


@pytest.mark.spec("X-03")
async def test_tasks_side_by_side_each_get_their_answer(name: str, tmp_path: Path) -> None:
    async with open_foreign_stage(tmp_path, name, many_jobs) as stage:
        await stage.examine()
        parent = await stage.begin()
        tasks = await end_tasks(stage, parent, FAN_OUT)
        assert {each.prompt: (each.status, each.result) for each in tasks} == {
            each: ("completed", f"Did {each}.") for each in JOBS
        }, tasks
        assert len(await stage.notices(parent)) == FAN_OUT
        assert sorted(stage.lines_run()) == [f"asked {each}" for each in JOBS]
        assert stage.processes() == []


@pytest.mark.spec("X-03")
async def test_tasks_side_by_side_end_once_if_our_server_is_killed(
    name: str, tmp_path: Path, record_property: Callable[[str, int], None]
) -> None:
    async with open_foreign_stage(tmp_path, name, many_jobs) as stage:
        await stage.examine()
        parent = await stage.begin()
        await wait_until(lambda: asks(stage, parent), seconds=PATIENCE, pause=LOOK)
        await stage.answer_all()
        await stage.kill_server()
        await stage.wait_for_no_process()
        await stage.start_server()
        tasks = await end_tasks(stage, parent, FAN_OUT)
        assert len(await stage.notices(parent)) == FAN_OUT
        for task in tasks:
            in_doubt = (task.error or "").startswith("TaskInDoubt: ")
            honest = ("error", "crash") if in_doubt else ("completed", None)
            assert (task.status, task.ended_by) == honest, task
            record_property(f"{name}, server killed in a fan-out: {task.status}", 1)
        lines = stage.lines_run()
        assert len(lines) == len(set(lines)), lines
