"""Many follow the board while tasks come, work, end and go: all end with what a fresh snapshot says."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec
import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.event import task_stream as board_module
from asyncagents.engine.event.task_stream import MAX_QUEUED_CHANGES, Board, BoardUpdate
from asyncagents.store.tx import Database, Verb
from tests.contract.conftest import Another
from tests.support.soak import some_of
from tests.support.store.lab import Lab
from tests.support.store.task import open_parent
from tests.support.store.task_walk import TaskWalk, Watcher, read_watcher
from tests.support.wait import PATIENCE, wait_until

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a second here."""
    monkeypatch.setattr(board_module, "PROGRESS_SECONDS", 0.005)
    monkeypatch.setattr(board_module, "READ_INTERVAL_SECONDS", 0.0)


@asynccontextmanager
async def read(lab: Lab, *, size: int = MAX_QUEUED_CHANGES) -> AsyncIterator[Board]:
    board = Board(lab.store, size=size)
    async with asyncio.TaskGroup() as group:
        board.set_task_group(group)
        try:
            yield board
        finally:
            board.close()


async def _watch(board: Board, watcher: Watcher, rng: random.Random) -> None:
    """Cut off after some news, or slow, again and again."""
    while True:
        left = rng.randrange(1, 30)
        async with aclosing(board.follow(watcher.cursor)) as news:
            async for each in news:
                watcher.apply(each)
                for _ in range(rng.choice([0, 0, 0, 5, 40])):
                    await asyncio.sleep(0)
                left -= 1
                if not left:
                    break


async def _until_all_know(watchers: list[Watcher], wanted: dict[SessionId, bytes]) -> None:
    await wait_until(lambda: all(watcher.state == wanted for watcher in watchers))  # by any news


@pytest.mark.spec("H-06")
@pytest.mark.parametrize("seed", some_of(range(400, 406), 2))
async def test_followers_of_the_board_end_with_a_fresh_snapshot(lab: Lab, seed: int) -> None:
    """Also over the end of a runtime: the next goes on from the cursors of the one before."""
    rng, walk, watchers = random.Random(seed), TaskWalk(lab, seed), list[Watcher]()
    for _ in range(3):
        async with read(lab, size=4) as board, asyncio.TaskGroup() as group:
            watchers += [Watcher(*await board.snapshot()) for _ in range(2)]
            tasks = [group.create_task(_watch(board, each, random.Random(rng.random()))) for each in watchers]
            for _ in range(20):
                await walk.go(rng.randrange(1, 8))
            if rng.random() < 0.7:
                await _until_all_know(watchers, await read_watcher(lab))
            for task in tasks:
                task.cancel()
        await walk.go(rng.randrange(8))
    assert {"task.created", "task.updated"} <= {kind for each in watchers for kind, _ in each.received}


@pytest.mark.spec("H-06")
@pytest.mark.parametrize("seed", some_of(range(410, 413), 1))
async def test_followers_in_another_process_end_with_a_fresh_snapshot(
    lab: Lab, another: Another, seed: int
) -> None:
    rng, walk, clock = random.Random(seed), TaskWalk(lab, seed), lab.clock
    async with another() as database:
        other = Lab(database, clock, lab.ids)
        async with read(other, size=4) as board, asyncio.TaskGroup() as group:
            watchers = [Watcher(*await board.snapshot()) for _ in range(3)]
            tasks = [group.create_task(_watch(board, each, random.Random(rng.random()))) for each in watchers]
            for _ in range(30):
                await walk.go(rng.randrange(1, 8))
                database.poll()
            await _until_all_know(watchers, await read_watcher(lab))
            for task in tasks:
                task.cancel()
    assert watchers[0].received


class Delayed:
    """A database that holds back what it answered to one who reads."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.write = inner.write
        self.listen = inner.listen
        self.held: asyncio.Future[BoardUpdate] | None = None
        self.read_it = asyncio.Event()
        self.go = asyncio.Event()

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        result = await self._inner.read(verb, inline=inline)
        if asyncio.current_task() is self.held:
            self.read_it.set()
            await self.go.wait()
        return result


@pytest.mark.spec("H-06")
async def test_a_follower_with_a_slow_first_read_misses_no_event(lab: Lab) -> None:
    delayed = Delayed(lab.database)
    slow = Lab(delayed, lab.clock, lab.ids)
    crew = await open_parent(lab)
    async with read(slow) as board, asyncio.timeout(PATIENCE):
        _, cursor = await board.snapshot()
        async with aclosing(board.follow(cursor)) as first, aclosing(board.follow(cursor)) as second:
            told = asyncio.ensure_future(anext(first))
            await wait_until(lambda: board._subscribers)  # nothing tells that it has joined
            late = delayed.held = asyncio.ensure_future(anext(second))
            await delayed.read_it.wait()
            await crew.launch(crew.calls[0])
            assert (await told).type == "task.created"
            delayed.go.set()
            assert await late == told.result()


async def _place(board: Board, cursor: str, child: SessionId, *, heard: asyncio.Event) -> int | None:
    """Of a task in its queue, once news of it have come."""
    async with aclosing(board.follow(cursor)) as news:
        while True:
            waiting = asyncio.ensure_future(anext(news))
            await wait_until(lambda: board._subscribers)  # nothing tells that it has joined
            heard.set()
            task = msgspec.json.decode((await waiting).body, type=BackgroundTask)
            if task.session_id == child:
                assert task.progress is not None
                return task.progress.place


async def _tick(board: Board) -> None:
    board._next_progress = 0.0
    board._read_wanted.set()


@pytest.mark.spec("H-06")
async def test_a_follower_gets_a_change_back_to_a_place_that_others_know(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "PROGRESS_SECONDS", 3_600)
    crew = await open_parent(lab, 3)
    first, _, last = [await crew.launch(call, crowd=1) for call in crew.calls]
    claim = await lab.claim(first)
    async with read(lab) as board, asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        _, cursor = await board.snapshot()
        early, late = asyncio.Event(), asyncio.Event()
        told = group.create_task(_place(board, cursor, last, heard=early))
        keeper = group.create_task(_watch(board, Watcher(*await board.snapshot()), random.Random(0)))
        await early.wait()
        step = await lab.step(claim)
        await _tick(board)
        assert await told == 2
        call = lab.call(step)
        await lab.end(claim, step, call)
        await lab.move(claim, call, lab.open_state())
        assert await lab.store.park(claim, (await lab.store.control(first)).wake_seq)
        snapshot, cursor = await board.snapshot()
        (seen,) = [task.progress for task in snapshot.tasks if task.session_id == last]
        assert seen is not None
        assert seen.place == 1
        again = group.create_task(_place(board, cursor, last, heard=late))
        await late.wait()
        await wait_until(lambda: len(board._subscribers) >= 2)  # as above
        await lab.store.settle(call.id, Completed("v2"))
        await lab.claim(first)
        await _tick(board)
        assert await again == 2
        keeper.cancel()
