"""Who follows the board has what a fresh snapshot says, wherever it was cut off."""

import random

import pytest

from asyncagents.engine.follower import Follower
from asyncagents.store.verb import board_feed
from asyncagents.store.verb.board_feed import Look, point
from tests.contract.board_walk import TaskWalk, Watcher, fresh, some
from tests.contract.build import Lab


async def _look(lab: Lab, follower: Follower, *, progress: bool, window: int) -> Look:
    return await lab.database.read(
        lambda tx: board_feed.look(tx, follower.point, progress=progress, window=window)
    )


async def _catch_up(lab: Lab, watcher: Watcher, rng: random.Random) -> None:
    """Piece by piece; cut off now and then, it begins again from the last cursor it has."""
    follower, window = Follower(point(watcher.cursor)), rng.choice([1, 2, 500])
    while True:
        look = await _look(lab, follower, progress=True, window=window)
        assert not look.reset
        news = list(follower.take(look))
        heard = some(rng, news)
        for each in heard:
            watcher.apply(each)
        if len(heard) < len(news):
            follower = Follower(point(watcher.cursor))
        elif not look.more:
            return


@pytest.mark.spec("H-06")
@pytest.mark.parametrize("far", [0, 2_000])
@pytest.mark.parametrize("seed", range(300, 312))
async def test_a_snapshot_and_what_came_after_it_is_a_fresh_snapshot(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, seed: int, far: int
) -> None:
    monkeypatch.setattr(board_feed, "FAR", far)
    walk, rng = TaskWalk(lab, seed), random.Random(seed)
    watchers = [Watcher(*await lab.store.board.snapshot())]
    kinds = set()
    for _ in range(40):
        await walk.go(rng.randrange(1, 12))
        if rng.random() < 0.2:
            watchers.append(Watcher(*await lab.store.board.snapshot()))
        for watcher in watchers:
            if rng.random() < 0.5:
                await _catch_up(lab, watcher, rng)
                assert watcher.state == await fresh(lab)
                kinds |= {kind for kind, _ in watcher.heard}
    assert {"task.created", "task.updated"} <= kinds
