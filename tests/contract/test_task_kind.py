"""Sync tasks and background tasks are told apart wherever tasks are counted or listed."""

import json

import pytest

from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.fact import Resume
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.board import KindFilter, TaskQuery
from asyncagents.store.tx import Row
from tests.support.store.lab import Lab
from tests.support.store.task import Parent, open_parent, rewrite_task, task_row, work_child


async def _mixed(lab: Lab) -> tuple[Parent, list[SessionId]]:
    """Two tasks in the background and, in the same batch, one that its parent waits for."""
    boss = await open_parent(lab, 3)
    launched = [await boss.launch(call, description=f"B{n}") for n, call in enumerate(boss.calls[:2])]
    launched.append(await boss.launch(boss.calls[2], background=False, description="S"))
    return boss, launched


async def told_to(lab: Lab, boss: Parent) -> tuple[list[str], str]:
    """What people see of its notices, and what the model reads besides."""
    claim = boss.lease
    await lab.step(claim)
    (told,) = [each for each in await lab.store.messages(boss.id) if "Task Progress" in each.text]
    texts = [part for part in told.parts if isinstance(part, TextPart)]
    (hidden,) = [part.text for part in texts if part.synthetic]
    return [part.text for part in texts if not part.synthetic], hidden


@pytest.mark.spec("Z-03", "T-12")
async def test_a_notice_counts_background_tasks_alone(lab: Lab) -> None:
    boss, launched = await _mixed(lab)
    for each in reversed(launched):
        await work_child(lab, each)
    visible, hidden = await told_to(lab, boss)
    assert [text.splitlines()[-1] for text in visible] == ["Task Progress: 2/2"] * 2
    assert "\nAll 2 tasks finished.\n" in hidden


@pytest.mark.spec("Z-03")
async def test_the_board_shows_background_tasks_unless_another_kind_is_given(lab: Lab) -> None:
    _, (first, second, waited) = await _mixed(lab)
    await work_child(lab, waited)
    wanted: dict[KindFilter, list[SessionId]] = {
        "background": [second, first],
        "sync": [waited],
        "all": [waited, second, first],
    }
    for kind, ids in wanted.items():
        for more in ({}, {"agent": "general"}, {"search": ""}, {"limit": 1}):
            page = await lab.store.board.page(TaskQuery(kind=kind, **more))
            assert [task.session_id for task in page.tasks] == ids[: page.limit]
            assert page.total == len(ids)
        snapshot, _ = await lab.store.board.snapshot(kind)
        assert sorted(task.session_id for task in snapshot.tasks) == sorted(ids)
        assert snapshot.stats.total_tasks == 2
        assert snapshot.stats.active_tasks == 2
    assert {
        task.session_id: task.kind for task in (await lab.store.board.page(TaskQuery(kind="all"))).tasks
    } == {
        first: "background",
        second: "background",
        waited: "sync",
    }
    done = await lab.store.board.page(TaskQuery(kind="all", status="completed"))
    assert [task.session_id for task in done.tasks] == [waited]
    assert done.total == 1
    assert (await lab.store.board.page(TaskQuery(status="completed"))).total == 0
    assert (await lab.store.board.page(TaskQuery(kind="sync", search="s"))).total == 1
    assert (await lab.store.board.page(TaskQuery(search="s"))).total == 0
    assert await lab.store.board.count() == 2
    assert (await lab.store.census.take("pool")).tasks["completed"] == 0


@pytest.mark.spec("Z-03", "T-07")
async def test_a_group_lists_all_with_their_kinds_and_counts_background_tasks_alone(lab: Lab) -> None:
    _, (first, second, waited) = await _mixed(lab)
    await work_child(lab, first)
    await work_child(lab, waited)
    batch = (await lab.store.task(first)).task.batch
    group = await lab.store.board.group(batch)
    assert [(task.session_id, task.kind) for task in group.tasks] == [
        (first, "background"),
        (second, "background"),
        (waited, "sync"),
    ]
    stats = group.stats
    assert stats.total == 2
    assert stats.completed == 1
    assert stats.running == 1
    assert stats.completion_rate == 0.5


@pytest.mark.spec("Z-03")
async def test_a_group_without_background_tasks_counts_none(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], background=False)
    group = await lab.store.board.group((await lab.store.task(child)).task.batch)
    assert [task.kind for task in group.tasks] == ["sync"]
    assert group.stats.total == 0
    assert group.stats.completion_rate == 0.0
    assert group.stats.duration == 0


@pytest.mark.spec("Z-03")
async def test_the_kind_of_a_task_is_that_of_its_latest_run(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], background=False)

    async def kinds() -> tuple[str, int]:
        """Of the task itself, and how many of it a board has."""
        return (await lab.store.task(child)).task.kind, await lab.store.board.count()

    assert await kinds() == ("sync", 0)
    await lab.store.actions.move_to_background(child)
    assert await kinds() == ("background", 1)
    await work_child(lab, child)
    follow = Resume(child, lab.input(child, "and?"), "and?", boss.calls[0].id)
    await lab.store.resume(follow)
    assert await kinds() == ("sync", 0)
    await work_child(lab, child)
    await lab.store.resume(Resume(child, lab.input(child, "more"), "more"))
    assert await kinds() == ("background", 1)


@pytest.mark.spec("Z-03")
async def test_a_task_row_without_a_kind_is_a_background_task(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    raw, version = await task_row(lab, child)
    assert "background" not in json.loads(raw)
    await rewrite_task(lab, (await lab.store.task(child)).task, raw, version)
    assert (await lab.store.board.page(TaskQuery())).total == 1


async def test_a_task_of_a_deleted_session_stays_in_all_lists(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    ended, live = [await boss.launch(call) for call in boss.calls]
    await work_child(lab, ended)
    for each in (ended, live):
        await lab.store.delete_session(each)
    rows: list[Row] = await lab.database.read(lambda tx: tx.all("tasks_of_tree", boss.id))
    assert len(rows) == 2
    lists = [
        await lab.store.tasks_of_tree(boss.id),
        await lab.store.tasks_of(boss.id),
        await lab.store.tasks(limit=10),
    ]
    for listed in lists:
        assert {seen.task.id: (seen.task.status, seen.task.gone) for seen in listed} == {
            ended: ("completed", True),
            live: ("cancelled", True),
        }
    page = await lab.store.board.page(TaskQuery())
    assert [task.gone for task in page.tasks] == [True, True]
