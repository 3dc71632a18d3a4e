"""Many follow the board while tasks come, work, end and go: all end with what a fresh snapshot says."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import pytest

from asyncagents.engine import board as board_module
from asyncagents.engine.board import Board
from asyncagents.engine.follower import QUEUE, News
from asyncagents.store.tx import Database, Verb
from tests.contract.board_walk import TaskWalk, Watcher, fresh
from tests.contract.build import Lab
from tests.contract.tasks import parent

T = TypeVar("T")
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a second here."""
    monkeypatch.setattr(board_module, "PROGRESS_SECONDS", 0.005)
    monkeypatch.setattr(board_module, "GAP_SECONDS", 0.0)


@asynccontextmanager
async def read(lab: Lab, *, size: int = QUEUE) -> AsyncIterator[Board]:
    board = Board(lab.store, size=size)
    async with asyncio.TaskGroup() as group:
        board.read_in(group)
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


@pytest.mark.spec("H-06")
@pytest.mark.parametrize("seed", range(400, 406))
async def test_whoever_follows_ends_with_a_fresh_snapshot(lab: Lab, seed: int) -> None:
    rng, walk = random.Random(seed), TaskWalk(lab, seed)
    async with read(lab, size=4) as board:
        watchers = [Watcher(*await board.snapshot()) for _ in range(5)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_watch(board, each, random.Random(rng.random()))) for each in watchers]
            for _ in range(40):
                await walk.go(rng.randrange(1, 8))
            wanted = await fresh(lab)
            async with asyncio.timeout(PATIENCE):
                while any(watcher.state != wanted for watcher in watchers):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
    assert len(wanted) > 1


class Delayed:
    """A database that holds back what it answered to one who reads."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.write = inner.write
        self.listen = inner.listen
        self.held: asyncio.Future[News] | None = None
        self.read_it = asyncio.Event()
        self.go = asyncio.Event()

    async def read(self, verb: Verb[T]) -> T:
        result = await self._inner.read(verb)
        if asyncio.current_task() is self.held:
            self.read_it.set()
            await self.go.wait()
        return result


@pytest.mark.spec("H-06")
async def test_one_whose_own_look_took_long_misses_nothing_that_others_were_told_meanwhile(lab: Lab) -> None:
    delayed = Delayed(lab.database)
    slow = Lab(delayed, lab.clock, lab.ids)
    crew = await parent(lab)
    async with read(slow) as board, asyncio.timeout(PATIENCE):
        _, cursor = await board.snapshot()
        async with aclosing(board.follow(cursor)) as first, aclosing(board.follow(cursor)) as second:
            told = asyncio.ensure_future(anext(first))
            while not board._followers:  # noqa: ASYNC110  nothing tells that it has joined
                await asyncio.sleep(0)
            late = delayed.held = asyncio.ensure_future(anext(second))
            await delayed.read_it.wait()
            await crew.launch(crew.calls[0])
            assert (await told).type == "task.created"
            delayed.go.set()
            assert await late == told.result()
