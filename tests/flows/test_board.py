"""The status board of a runtime: what it shows, and what it tells whoever follows it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asyncagents.domain.task.board import TaskQuery
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.event.task_stream import BoardUpdate
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Closed, InvalidInput, NotFound
from asyncagents.llm.scripted import ScriptedModel, call, fail, say
from tests.support.delegation import (
    RequestScript,
    child_session,
    launch_task,
    open_delegation_stage,
    wait_until_quiet,
)
from tests.support.runtime import open_runtime
from tests.support.tool import ECHO, Gate
from tests.support.wait import PATIENCE, wait_until

SCENES: RequestScript = {
    "go": [[launch_task("A", "a")], [say("Off.")], *[[say("Told.")]] * 4],
    "a": [[call("echo", text="x")], [call("gate")], [say("A is 1.")]],
    "clear": [[call("asyncagents_clear")], [say("Gone.")]],
}


class Screen:
    """Applies what it is told, as it comes."""

    def __init__(self) -> None:
        self.state: dict[str, BackgroundTask] = {}
        self.heard: list[BoardUpdate] = []
        self._more = asyncio.Condition()
        self._seen = 0

    @property
    def types(self) -> list[str]:
        return [each.type for each in self.heard]

    async def read(self, news: AsyncGenerator[BoardUpdate, None]) -> None:
        async for each in news:
            async with self._more:
                self.heard.append(each)
                self._more.notify_all()

    async def until(self, kind: str, *, tools: int = 0) -> BackgroundTask | None:
        """The next of its kind, or (empty) of any, with so many tool calls at least; None: it is gone."""
        async with asyncio.timeout(PATIENCE), self._more:
            while True:
                await self._more.wait_for(lambda: len(self.heard) > self._seen)
                news = self.heard[self._seen]
                self._seen += 1
                task = self._apply(news)
                done = 0 if task is None or task.progress is None else task.progress.tool_calls
                if kind in ("", news.type) and done >= tools:
                    return task

    async def task(self, kind: str, *, tools: int = 0) -> BackgroundTask:
        task = await self.until(kind, tools=tools)
        assert task is not None
        return task

    def _apply(self, news: BoardUpdate) -> BackgroundTask | None:
        if news.type == "task.removed":
            self.state.pop(msgspec.json.decode(news.body)["sessionID"], None)
            return None
        task = msgspec.json.decode(news.body, type=BackgroundTask)
        self.state[task.session_id] = task
        return task


@asynccontextmanager
async def screen(runtime: Runtime, cursor: str | None = None) -> AsyncIterator[Screen]:
    """Follows from a cursor, or from now."""
    seen = Screen()
    cursor = cursor or (await runtime.board.snapshot())[1]
    async with aclosing(runtime.board.follow(cursor)) as news, asyncio.TaskGroup() as group:
        reader = group.create_task(seen.read(news))
        yield seen
        reader.cancel()


@pytest.mark.spec("H-06")
async def test_a_follower_gets_the_events_of_a_task_from_launch_to_end(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, SCENES, gate.tool, ECHO) as at, screen(at.runtime) as seen:
        await at.prompt("go")
        created = await seen.task("task.created")
        await gate.until_started()
        updated = await seen.task("", tools=2)
        gate.go.set()
        completed = await seen.task("task.completed")
        shown = await at.runtime.tasks.get(created.session_id)
    assert created.description == "A"
    assert created.status == "running"
    assert created.prompt == "a"
    assert updated.progress is not None
    assert updated.progress.tool_calls_by_name == {"echo": 1, "gate": 1}
    assert updated.status == "running"
    assert completed.status == "completed"
    assert completed.result == "A is 1."
    assert completed == msgspec.structs.replace(shown, result_retrieved_at=None)
    assert seen.types.count("task.created") == seen.types.count("task.completed") == 1


@pytest.mark.spec("H-06")
async def test_failed_cancelled_resumed_and_cleared_tasks_publish_board_events(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **SCENES,
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 6],
        "b": [[fail("no")]],
        "more": [[call("second")], [say("Again.")]],
    }
    second = Gate("second")
    async with (
        open_delegation_stage(tmp_path, scenes, gate.tool, second.tool, ECHO) as at,
        screen(at.runtime) as seen,
    ):
        await at.prompt("go")
        failed = await seen.task("task.error")
        await gate.until_started()
        await at.runtime.tasks.cancel(await child_session(at, "A"))
        cancelled = await seen.task("task.cancelled")
        await at.runtime.tasks.resume(failed.session_id, "more")
        resumed = await seen.task("task.updated")
        while resumed.status != "resumed":
            resumed = await seen.task("task.updated")
        second.go.set()
        await seen.until("task.completed")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("clear")
        await seen.until("task.removed")
        await seen.until("task.removed")
        page = await at.runtime.board.page(TaskQuery())
    assert failed.error is not None
    assert failed.description == "B"
    assert cancelled.description == "A"
    assert cancelled.ended_by == "user"
    assert resumed.session_id == failed.session_id
    assert resumed.resume_count == 1
    assert page.total == 0
    assert seen.state == {}


@pytest.mark.spec("H-06")
async def test_tasks_of_a_parent_that_is_deleted_are_removed(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, SCENES, gate.tool, ECHO) as at, screen(at.runtime) as seen:
        await at.prompt("go")
        await gate.until_started()
        await at.runtime.delete_session(at.session_id)
        await seen.until("task.removed")
        assert (await at.runtime.board.snapshot())[0].tasks == ()
    assert seen.state == {}


@pytest.mark.spec("H-06", "H-09")
async def test_a_cursor_stays_valid_after_a_restart(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, SCENES, gate.tool, ECHO) as at:
        _, cursor = await at.runtime.board.snapshot()
        async with screen(at.runtime) as seen:
            await at.prompt("go")
            await seen.task("task.created")
            middle = seen.heard[-1].cursor
        await gate.until_started()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        async with screen(runtime, middle) as late:
            ended = await late.task("task.completed")
        async with screen(runtime, cursor) as later:
            created = await later.task("task.created")
            await later.until("task.completed")
        page = await runtime.board.page(TaskQuery(status="completed"))
        group = await runtime.board.group(ended.batch_id)
        with pytest.raises(NotFound):
            await runtime.board.group("bat_none")
    assert "task.created" not in late.types
    assert created == ended == page.tasks[0] == group.tasks[0]
    assert group.stats.completion_rate == 1.0
    assert group.stats.total_tool_calls == 2


@pytest.mark.spec("H-06")
async def test_a_follower_in_another_process_gets_the_board_events(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with (
        open_delegation_stage(tmp_path, SCENES, gate.tool, ECHO) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
        screen(other) as seen,
    ):
        await at.prompt("go")
        await gate.until_started()
        await seen.until("", tools=2)
        gate.go.set()
        await seen.until("task.completed")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("clear")
        await seen.until("task.removed")
    assert seen.state == {}


async def test_a_waiting_follower_raises_closed_when_the_runtime_ends(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        _, cursor = await runtime.board.snapshot()
        news = runtime.board.follow(cursor)
        waiting = asyncio.ensure_future(anext(news))
        await wait_until(lambda: runtime.board._subscribers)  # nothing tells that it has joined
    with pytest.raises(Closed):
        await waiting


@pytest.mark.spec("H-06")
async def test_a_cursor_of_another_store_is_reset_and_an_invalid_one_is_refused(
    tmp_path: Path,
) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        _, now = await runtime.board.snapshot()
        epoch = now.split("-")[0]
        for old in ("ffff-0-7", f"{epoch}-0-999"):
            async with aclosing(runtime.board.follow(old)) as news:
                assert await anext(news) == BoardUpdate(now, "reset", b"{}")
        for nonsense in (
            "",
            "x",
            f"{epoch}-0-1-2-3",
            f"{epoch}-0-1-0",
            "a-b-c",
            f"{epoch}-0-{'9' * 30}",
            "a-0-²",
        ):
            with pytest.raises(InvalidInput, match="is not a valid cursor"):
                runtime.board.follow(nonsense)
