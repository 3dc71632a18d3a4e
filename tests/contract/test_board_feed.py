"""Who follows the board has what a fresh snapshot says, wherever it was cut off."""

import random

import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.domain.fact import Resume, Retrieve
from asyncagents.domain.id import CallId
from asyncagents.domain.task.board import KINDS
from asyncagents.domain.task.board_feed import BoardChanges, parse_board_cursor
from asyncagents.engine.event.task_stream import BoardSubscriber
from asyncagents.store.tx import Tx
from asyncagents.store.verb import board_feed
from asyncagents.store.verb.task import put_task
from tests.support.soak import some_of
from tests.support.store.lab import Lab
from tests.support.store.task import open_parent, rewrite_task, work_child
from tests.support.store.task_walk import TaskWalk, Watcher, draw_some, open_watcher, read_watcher


async def _look(lab: Lab, subscriber: BoardSubscriber, *, progress: bool, window: int) -> BoardChanges:
    return await lab.database.read(
        lambda tx: board_feed.changes_since(tx, subscriber.point, progress=progress, window=window)
    )


async def _catch_up(lab: Lab, watcher: Watcher, rng: random.Random) -> None:
    """Piece by piece; cut off now and then, it begins again from the last cursor it has."""
    subscriber, window = (
        BoardSubscriber(parse_board_cursor(watcher.cursor), kind=watcher.kind),
        rng.choice([1, 2, 500]),
    )
    while True:
        board_changes = await _look(lab, subscriber, progress=True, window=window)
        assert not board_changes.reset
        news = list(subscriber.apply(board_changes))
        heard = draw_some(rng, news)
        for each in heard:
            watcher.apply(each)
        if len(heard) < len(news):
            subscriber = BoardSubscriber(parse_board_cursor(watcher.cursor), kind=watcher.kind)
        elif not board_changes.more:
            return


@pytest.mark.spec("H-06", "Z-03")
@pytest.mark.parametrize("far", [0, 2_000])
@pytest.mark.parametrize("seed", some_of(range(300, 312), 3))
async def test_a_snapshot_with_later_events_equals_a_fresh_snapshot(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, seed: int, far: int
) -> None:
    monkeypatch.setattr(board_feed, "FAR", far)
    walk, rng = TaskWalk(lab, seed), random.Random(seed)
    watchers = [await open_watcher(lab, kind) for kind in KINDS]
    kinds = set()
    for _ in range(40):
        await walk.go(rng.randrange(1, 12))
        if rng.random() < 0.2:
            watchers.append(await open_watcher(lab, rng.choice(KINDS)))
        for watcher in watchers:
            if rng.random() < 0.5:
                await _catch_up(lab, watcher, rng)
                assert watcher.state == await read_watcher(lab, watcher.kind)
                kinds |= {kind for kind, _ in watcher.received}
    assert {"task.created", "task.updated"} <= kinds


async def test_a_deleted_and_restored_task_is_removed_before_it_is_created(lab: Lab) -> None:
    crew = await open_parent(lab)
    child = await crew.launch(crew.calls[0])
    task = (await lab.store.task(child)).task
    watcher = Watcher(*await lab.store.board.snapshot())

    async def bring(tx: Tx) -> None:
        await put_task(tx, task, new=True)

    await lab.store.delete_session(crew.id)
    await lab.database.write(bring)
    await _catch_up(lab, watcher, random.Random(0))
    assert watcher.received == [("task.removed", child), ("task.created", child)]


@pytest.mark.spec("H-06")
async def test_a_cursor_older_than_forgotten_deletions_is_reset(lab: Lab) -> None:
    crew = await open_parent(lab)
    await crew.launch(crew.calls[0])
    _, before = await lab.store.board.snapshot()
    await lab.store.delete_session(crew.id)
    _, after = await lab.store.board.snapshot()
    await lab.store.forget_deleted(int(after.split("-")[2]))
    assert (await _look(lab, BoardSubscriber(parse_board_cursor(before)), progress=True, window=9)).reset
    assert not (await _look(lab, BoardSubscriber(parse_board_cursor(after)), progress=True, window=9)).reset


async def test_an_unreadable_task_is_removed_from_the_board(lab: Lab) -> None:
    crew = await open_parent(lab)
    child = await crew.launch(crew.calls[0])
    watcher = Watcher(*await lab.store.board.snapshot())
    await rewrite_task(lab, (await lab.store.task(child)).task, b"{", 1)
    await lab.store.conclude_task(child)
    await _catch_up(lab, watcher, random.Random(0))
    assert watcher.state == await read_watcher(lab) == {}
    assert (await lab.store.board.stats()).active_tasks == 0


@pytest.mark.spec("H-06")
async def test_an_end_is_published_once_and_its_retrieval_as_an_update(lab: Lab) -> None:
    crew = await open_parent(lab, 2)
    child = await crew.launch(crew.calls[0])
    watcher = Watcher(*await lab.store.board.snapshot())
    await work_child(lab, child)
    await _catch_up(lab, watcher, random.Random(0))
    read = Retrieve(child, (await lab.store.task(child)).task.run)
    await lab.store.finish_call(crew.lease, crew.calls[1].id, Completed("read"), (read,))
    await _catch_up(lab, watcher, random.Random(0))
    assert watcher.received == [("task.completed", child), ("task.updated", child)]
    assert b"resultRetrievedAt" in watcher.state[child]


@pytest.mark.spec("H-06")
async def test_a_subscriber_ahead_of_the_reader_gets_later_progress_of_a_task(lab: Lab) -> None:
    """Who joins has read for himself; the others' look begins before that, and holds the task only once."""
    crew = await open_parent(lab)
    task_id = await crew.launch(crew.calls[0], background=False)
    claim = await lab.claim(task_id)
    _, cursor = await lab.store.board.snapshot()
    reader = BoardSubscriber(parse_board_cursor(cursor))
    await lab.store.actions.move_to_background(task_id)
    ahead = Watcher(*await lab.store.board.snapshot())
    await lab.step(claim)
    board_changes = await _look(lab, reader, progress=True, window=500)
    subscriber = BoardSubscriber(parse_board_cursor(ahead.cursor))
    for each in subscriber.apply(board_changes):
        ahead.apply(each)
    assert ahead.state == await read_watcher(lab)


@pytest.mark.spec("H-06")
@pytest.mark.parametrize("seed", some_of(range(327, 330), 1))
async def test_a_subscriber_ahead_of_the_reader_ends_with_a_fresh_snapshot(lab: Lab, seed: int) -> None:
    walk, rng = TaskWalk(lab, seed), random.Random(seed)
    reader = BoardSubscriber(parse_board_cursor((await lab.store.board.snapshot())[1]))
    pairs: list[tuple[Watcher, BoardSubscriber]] = []
    for _ in range(60):
        await walk.go(rng.randrange(1, 12))
        if rng.random() < 0.3:
            watcher = await open_watcher(lab, rng.choice(KINDS))
            pairs.append((watcher, BoardSubscriber(parse_board_cursor(watcher.cursor), kind=watcher.kind)))
            await walk.go(rng.randrange(6))
        board_changes = await _look(lab, reader, progress=rng.random() < 0.5, window=rng.choice([1, 3, 500]))
        reader.point = board_changes.point
        for watcher, subscriber in pairs:
            for news in subscriber.apply(board_changes):
                watcher.apply(news)
            assert board_changes.point.level < board_changes.point.rev or watcher.state == await read_watcher(
                lab, watcher.kind
            )


@pytest.mark.spec("Z-03", "H-06")
async def test_a_task_that_changes_its_kind_comes_to_one_board_and_leaves_the_other(lab: Lab) -> None:
    crew = await open_parent(lab)
    child = await crew.launch(crew.calls[0], background=False)
    watchers = {kind: await open_watcher(lab, kind) for kind in KINDS}

    async def heard() -> dict[str, list[str]]:
        for watcher in watchers.values():
            watcher.received.clear()
            await _catch_up(lab, watcher, random.Random(0))
        return {kind: [what for what, _ in watcher.received] for kind, watcher in watchers.items()}

    await lab.store.actions.move_to_background(child)
    moved = {"background": ["task.created"], "sync": ["task.removed"], "all": ["task.updated"]}
    assert await heard() == moved
    await work_child(lab, child)
    assert await heard() == {"background": ["task.completed"], "sync": [], "all": ["task.completed"]}
    await lab.store.resume(Resume(child, lab.input(child, "and?"), "and?", CallId("tool_1")))
    again = {"background": ["task.removed"], "sync": ["task.created"], "all": ["task.updated"]}
    assert await heard() == again
    await work_child(lab, child)
    assert await heard() == {"background": [], "sync": ["task.completed"], "all": ["task.completed"]}
