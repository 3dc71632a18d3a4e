"""Reads for status boards: a page of tasks, a batch, sums, and the first snapshot."""

import re

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.task.board import (
    NEWEST_ENDED,
    BoardSnapshot,
    KindFilter,
    TaskGroup,
    TaskPage,
    TaskQuery,
    TaskStats,
    TaskSum,
    kind_of_filter,
    task_group,
    task_stats,
)
from asyncagents.domain.task.task import Task
from asyncagents.domain.task.view import BackgroundTask, background_task
from asyncagents.errors import NotFound
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb import feed
from asyncagents.store.verb.task import decode_task, fold_case, progress, without_read_follow_up

MAX_TOTALS = 100
MAX_PATTERN_CHARS = 1_000
"""Max characters of a search pattern; SQLite accepts at most 50,000 bytes."""
_SPECIAL = re.compile(r"[*?\[]")


class QueuePlaces:
    """Places in the queues of trees, counted once for all tasks that are read together."""

    def __init__(self) -> None:
        self._ahead: dict[SessionId, dict[SessionId, int]] = {}

    async def place_of(self, tx: Tx, control: Control) -> int:
        """The place of a session in its queue, from 1; 0: it does not queue."""
        if control.root_id not in self._ahead:
            rows = await tx.all("queued_of", control.root_id)
            ahead = {SessionId(row[0]): row[1] + before for before, row in enumerate(rows)}
            self._ahead[control.root_id] = ahead
        crowd = await tx.one("crowd_of", control.id)
        ahead = self._ahead[control.root_id]
        return max(0, ahead[control.id] - crowd[0] + 1) if crowd and control.id in ahead else 0


class BoardSums:
    """Caches the sums over all tasks until a task changes or is deleted: computing them reads every task."""

    def __init__(self) -> None:
        self._stats: tuple[Row, TaskStats] | None = None
        self._totals: tuple[Row | None, dict[tuple[object, ...], int]] = None, {}

    async def total(self, tx: Tx, *asked: str | None) -> int:
        """Count the tasks of a query: the name of a statement and its parameters."""
        state, (totals_state, totals) = await tx.one("board_state"), self._totals
        if totals_state != state or len(totals) >= MAX_TOTALS:
            totals = {}
            self._totals = state, totals
        if asked not in totals:
            totals[asked] = await _count(tx, str(asked[0]), *asked[1:])
        return totals[asked]

    async def stats(self, tx: Tx) -> TaskStats:
        state = await tx.one("board_state")
        assert state is not None
        entry = self._stats
        if entry is None or entry[0] != state:
            entry = state, task_stats(TaskSum(*row) for row in await tx.all("board_sums"))
            self._stats = entry
        return entry[1]


async def task_page(tx: Tx, query: TaskQuery, sums: BoardSums) -> TaskPage:
    """Read a page of tasks; an unreadable one is left out, but counted."""
    by, *given = _query_parameters(query)
    rows = await tx.all(f"board_page{by}", query.limit, query.offset, *given)
    if len(rows) < query.limit and (rows or not query.offset):  # the last page gives the total
        total = query.offset + len(rows)
    else:
        total = await sums.total(tx, f"board_count{by}", *given)
    tasks = tuple(each for _, each in await _show_tasks(tx, rows))
    return TaskPage(tasks=tasks, total=total, limit=query.limit, offset=query.offset)


def _query_parameters(query: TaskQuery) -> tuple[str | None, ...]:
    """The suffix of the statement for a query, and its parameters."""
    kind = kind_of_filter(query.kind)
    if query.search:
        words = fold_case(query.search)
        return "_of_words", kind, query.agent, query.status, _pattern(words[:MAX_PATTERN_CHARS]), words
    if query.agent is not None:
        return "_of_agent", kind, query.agent, query.status
    return ("", kind) if query.status is None else ("_of_status", kind, query.status)


def _pattern(words: str) -> str:
    """Build a GLOB pattern in which each character stands for itself."""
    return "*" + _SPECIAL.sub(r"[\g<0>]", words) + "*"


async def _count(tx: Tx, statement: str, *given: object) -> int:
    row = await tx.one(statement, *given)
    assert row is not None
    return int(row[0])


async def count_background(tx: Tx, sums: BoardSums) -> int:
    """Count the background tasks."""
    return await sums.total(tx, "board_count", "background")


async def read_group(tx: Tx, batch_id: str) -> TaskGroup:
    members = await _show_tasks(tx, await tx.all("tasks_of_batch", batch_id))
    if not members:
        raise NotFound("task group", batch_id)
    return task_group(batch_id, members, tx.now)


async def board_snapshot(tx: Tx, sums: BoardSums, kind: KindFilter) -> tuple[BoardSnapshot, str]:
    """Read the board and the cursor at which it was read."""
    sought = kind_of_filter(kind)
    ended = await tx.all("board_ended", sought, NEWEST_ENDED + 1)
    tasks = await _show_tasks(tx, [*await tx.all("board_live", sought), *ended[:NEWEST_ENDED]])
    newest_first = sorted((each for _, each in tasks), key=lambda each: each.session_id)
    more = len(ended) > NEWEST_ENDED
    board = BoardSnapshot(tasks=tuple(newest_first), stats=await sums.stats(tx), truncated=more)
    return board, await feed.cursor(tx)


async def _show_tasks(tx: Tx, rows: list[Row]) -> list[tuple[Task, BackgroundTask]]:
    places, found = QueuePlaces(), []
    for row in rows:
        try:
            task = decode_task(row)
        except Unreadable:  # left out, so that the others are shown
            continue
        found.append((task, await show_task(tx, task, places)))
    return found


async def show_task(tx: Tx, task: Task, places: QueuePlaces) -> BackgroundTask:
    """Show a task with its progress; without, if its session cannot be read."""
    try:
        return background_task(
            await without_read_follow_up(tx, task),
            await progress(tx, task, places.place_of) if task.live else None,
        )
    except Unreadable:
        return background_task(task, None)
