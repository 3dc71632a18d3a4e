"""What a status board is shown of tasks: pages, groups, sums, and all that it begins with."""

import msgspec
import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board import NEWEST_ENDED, TaskPage, TaskQuery
from asyncagents.domain.task.task import Task, TaskError, TaskStatus
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.store.tx import Tx
from asyncagents.store.verb.task import put_task
from tests.support.store.lab import Lab
from tests.support.store.task import open_parent, rewrite_task, work_child

FAILED = TaskError("APIError", "overloaded")


async def put(
    lab: Lab,
    description: str = "Find it",
    *,
    agent: str = "general",
    status: TaskStatus = "completed",
    took: int = 0,
    batch: str = "bat_1",
) -> SessionId:
    """A task as its row has it; nobody works on it."""
    lab.clock.advance(1)
    now, live = lab.clock.now(), status in ("running", "resumed")
    task = Task(
        id=lab.ids.session(),
        parent_id=SessionId("ses_parent"),
        message_id=lab.ids.message(),
        parent_agent="build",
        agent=agent,
        description=description,
        prompt="look",
        batch=batch,
        created=now,
        status=status,
        ended=None if live else now + took,
        error=FAILED if status == "error" else None,
    )

    async def verb(tx: Tx) -> None:
        await put_task(tx, task, new=True)

    await lab.database.write(verb)
    return task.id


def shown(page: TaskPage) -> list[SessionId]:
    return [task.session_id for task in page.tasks]


async def found(lab: Lab, **query: object) -> list[str]:
    """Descriptions, and that the total says as many."""
    page = await lab.store.board.page(TaskQuery(**query))  # type: ignore[arg-type]
    assert page.total == len(page.tasks)
    return [task.description for task in page.tasks]


@pytest.mark.spec("H-03")
async def test_a_page_has_the_newest_first_and_counts_all(lab: Lab) -> None:
    made = [await put(lab) for _ in range(7)]
    page = await lab.store.board.page(TaskQuery(limit=3, offset=2))
    assert shown(page) == made[::-1][2:5]
    assert page.total == 7
    assert page.limit == 3
    assert page.offset == 2


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    "query", [TaskQuery(limit=1), TaskQuery(limit=1, status="completed"), TaskQuery(limit=1, search="f")]
)
async def test_a_total_follows_every_launch(lab: Lab, query: TaskQuery) -> None:
    totals = []
    for _ in range(3):
        await put(lab)
        await put(lab, "Other", status="running")
        totals += [(await lab.store.board.page(query)).total for _ in range(2)]
    every = 2 if query.status is None and query.search is None else 1
    assert totals == [every, every, 2 * every, 2 * every, 3 * every, 3 * every]


@pytest.mark.spec("H-03")
async def test_consecutive_pages_make_up_the_whole_list(lab: Lab) -> None:
    made = [await put(lab, f"Thing {n}") for n in range(9)]
    for query in (
        TaskQuery(limit=2),
        TaskQuery(limit=2, search="thing"),
        TaskQuery(limit=2, agent="general"),
    ):
        seen: list[SessionId] = []
        for offset in range(0, 14, 2):
            page = await lab.store.board.page(msgspec.structs.replace(query, offset=offset))
            assert page.total == 9
            seen += shown(page)
        assert seen == made[::-1]


@pytest.mark.spec("H-03")
async def test_a_page_may_be_of_one_status_one_agent_or_both(lab: Lab) -> None:
    for status in ("running", "completed", "error", "cancelled", "resumed"):
        for agent in ("explore", "general"):
            await put(lab, f"{status} {agent}", status=status, agent=agent)
    assert await found(lab, status="error") == ["error general", "error explore"]
    assert len(await found(lab, agent="explore")) == 5
    assert await found(lab, agent="explore", status="resumed") == ["resumed explore"]
    assert await found(lab, agent="explore", status="resumed", search="RESUMED") == ["resumed explore"]
    assert await found(lab, agent="nobody") == []


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    ("words", "description"),
    [
        ("KEYWORD", "has a keyWord in it"),
        ("straße", "Die STRASSE entlang"),
        ("ΛΌΓΟΣ", "ο λόγος"),
        ("ÄRGER", "viel Ärger"),
        ("100%", "is 100% sure"),
        ("a_b", "rename a_b"),
        ("*?[x]", "match *?[X] exactly"),
        ("]", "close ]"),
        ("-", "a-z"),
        ("one\0two", "ONE\0TWO"),
    ],
)
async def test_a_search_is_a_part_of_the_description_in_any_case(
    lab: Lab, words: str, description: str
) -> None:
    await put(lab, description)
    await put(lab, "100 axb 1005 xx nothing of it")
    assert await found(lab, search=words) == [description]


@pytest.mark.spec("H-03")
async def test_an_empty_search_finds_all_tasks_and_a_very_long_one_the_matching(lab: Lab) -> None:
    long = "x" * 60_000
    await put(lab, f"a {long}Y")
    await put(lab, f"b {long}z")
    assert len(await found(lab, search="")) == 2
    assert [each[0] for each in await found(lab, search=f"{long}y")] == ["a"]


async def test_a_search_that_is_not_valid_text_is_refused(lab: Lab) -> None:
    with pytest.raises(InvalidInput):
        await lab.store.board.page(TaskQuery(search="\ud800"))


@pytest.mark.spec("H-07")
async def test_stats_count_by_status_and_agent_and_know_how_long_tasks_took(lab: Lab) -> None:
    for took in (10, 20, 60):
        await put(lab, took=took)
    await put(lab, status="error", agent="explore", took=5)
    await put(lab, status="running", agent="explore")
    await put(lab, status="resumed", agent="explore")
    stats = msgspec.json.decode(encode(await lab.store.board.stats()))
    assert stats == {
        "byStatus": {"running": 1, "completed": 3, "error": 1, "cancelled": 0, "resumed": 1},
        "byAgent": {"explore": 3, "general": 3},
        "duration": {"avg": 24, "max": 60, "min": 5},
        "totalTasks": 6,
        "activeTasks": 2,
    }


@pytest.mark.spec("H-07")
async def test_stats_follow_every_launch_end_and_clearing(lab: Lab) -> None:
    crew = await open_parent(lab, 2)
    children = [await crew.launch(call) for call in crew.calls]
    seen = [await lab.store.board.stats(), await lab.store.board.stats()]
    await work_child(lab, children[0])
    seen.append(await lab.store.board.stats())
    await lab.store.delete_session(crew.id)
    seen.append(await lab.store.board.stats())
    await lab.store.forget_deleted(10_000)
    seen.append(await lab.store.board.stats())
    counted = [(each.total_tasks, each.active_tasks, each.by_status["completed"]) for each in seen]
    assert counted == [(2, 2, 0), (2, 2, 0), (2, 1, 1), (0, 0, 0), (0, 0, 0)]


@pytest.mark.spec("H-07")
async def test_stats_of_an_empty_board_are_zeros(lab: Lab) -> None:
    stats = msgspec.json.decode(encode(await lab.store.board.stats()))
    assert stats["duration"] == {"avg": 0, "max": 0, "min": 0}
    assert set(stats["byStatus"].values()) == {0}
    assert stats["byAgent"] == {}
    assert stats["totalTasks"] == 0
    assert stats["activeTasks"] == 0
    assert await lab.store.board.count() == 0


@pytest.mark.spec("H-03")
async def test_an_empty_page_has_all_its_fields(lab: Lab) -> None:
    page = await lab.store.board.page(TaskQuery())
    assert msgspec.json.decode(encode(page)) == {"tasks": [], "total": 0, "limit": 50, "offset": 0}


@pytest.mark.spec("H-05")
async def test_a_group_has_its_tasks_and_their_totals(lab: Lab) -> None:
    first = await put(lab, batch="bat_a", took=100)
    await put(lab, batch="bat_a", status="error", took=400)
    await put(lab, batch="bat_a", status="cancelled")
    last = await put(lab, batch="bat_a", took=50)
    await put(lab, batch="bat_b")
    group = msgspec.json.decode(encode(await lab.store.board.group("bat_a")))
    assert [task["sessionID"] for task in group["tasks"]][:: len(group["tasks"]) - 1] == [first, last]
    assert group["groupId"] == "bat_a"
    assert group["stats"] == {
        "completed": 2,
        "running": 0,
        "error": 1,
        "cancelled": 1,
        "total": 4,
        "completionRate": 0.5,
        "totalToolCalls": 0,
        "duration": 401,
    }


@pytest.mark.spec("H-05")
async def test_the_duration_of_a_group_with_a_resumed_task_lasts_until_now(lab: Lab) -> None:
    await put(lab, took=10)
    await put(lab, status="resumed")
    lab.clock.advance(1_000)
    stats = (await lab.store.board.group("bat_1")).stats
    assert stats.running == 1
    assert stats.completed == 1
    assert stats.duration == 1_001


@pytest.mark.spec("H-05")
async def test_an_unknown_group_is_not_found(lab: Lab) -> None:
    with pytest.raises(NotFound):
        await lab.store.board.group("bat_9")


@pytest.mark.spec("H-05")
async def test_a_group_counts_the_calls_of_live_and_ended_tasks(lab: Lab) -> None:
    crew = await open_parent(lab, 2)
    done, busy = [await crew.launch(call) for call in crew.calls]
    for child in (done, busy):
        claim = await lab.claim(child)
        step = await lab.step(claim)
        call = lab.call(step, tool="read")
        await lab.end(claim, step, call)
        if child == done:
            await lab.store.finish_call(claim, call.id, Completed("ok"))
            await lab.end(claim, await lab.step(claim))
            control = await lab.store.control(child)
            assert await lab.store.rest(claim, control.wake_seq, "done")
    task = await lab.store.task(busy)
    group = await lab.store.board.group(task.task.batch)
    assert group.stats.total_tool_calls == 2
    assert group.stats.running == 1
    assert group.stats.completed == 1


@pytest.mark.spec("H-06")
async def test_a_snapshot_has_all_active_tasks_and_those_that_ended_last(lab: Lab) -> None:
    old = await put(lab, status="running")
    gone = await put(lab)
    late = await put(lab, took=10_000)
    newest = [await put(lab) for _ in range(NEWEST_ENDED - 1)]
    board, cursor = await lab.store.board.snapshot()
    assert [task.session_id for task in board.tasks] == [*reversed(newest), late, old]
    assert gone not in {task.session_id for task in board.tasks}
    assert board.truncated
    assert cursor == await lab.store.cursor()
    assert board.stats.total_tasks == NEWEST_ENDED + 2


@pytest.mark.spec("H-06")
async def test_a_snapshot_that_has_everything_is_not_truncated(lab: Lab) -> None:
    await put(lab)
    board, _ = await lab.store.board.snapshot()
    assert set(msgspec.json.decode(encode(board))) == {"tasks", "stats"}


async def test_the_board_and_the_task_itself_show_the_same_progress(lab: Lab) -> None:
    crew = await open_parent(lab, 4)
    children = [await crew.launch(call, crowd=2) for call in crew.calls]
    claim = await lab.claim(children[0])
    step = await lab.step(claim)
    await lab.end(claim, step, lab.call(step, tool="read"))
    await work_child(lab, children[1])
    await lab.claim(children[2])
    page = await lab.store.board.page(TaskQuery())
    places = {task.session_id: task.progress.place for task in page.tasks if task.progress}
    assert places[children[3]] == 1
    for task in page.tasks:
        seen = await lab.store.task(task.session_id)
        assert task.status == seen.task.status
        if seen.progress:
            assert task.progress is not None
            assert task.progress.tool_calls_by_name == seen.progress.by_name
            assert task.progress.phase == seen.progress.phase
            assert task.progress.place == seen.progress.place


async def test_a_row_that_cannot_be_read_hides_no_other(lab: Lab) -> None:
    await put(lab, "fine")
    broken = await put(lab, "broken")
    task = (await lab.store.task(broken)).task
    await rewrite_task(lab, task, b"{", 1)
    page = await lab.store.board.page(TaskQuery())
    assert [each.description for each in page.tasks] == ["fine"]
    assert [each.description for each in (await lab.store.board.snapshot())[0].tasks] == ["fine"]
