"""Many follow the board while tasks come, work, end and go: all end with what a fresh snapshot says."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from asyncagents.engine import board as board_module
from asyncagents.engine.board import Board
from asyncagents.engine.follower import QUEUE
from tests.contract.board_walk import TaskWalk, Watcher, fresh
from tests.contract.build import Lab

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
        reader = group.create_task(board.read_forever())
        try:
            yield board
        finally:
            board.close()
            reader.cancel()


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
