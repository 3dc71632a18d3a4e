"""Tasks: read and write task rows, follow-ups, progress, and places in the queue of a tree."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Call, Open, Running
from asyncagents.domain.conversation.codec import DECODE_ERRORS, SHAPE_VERSION, Unreadable, unreadable_error
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.event import TaskCreated, TaskUpdated, task_event
from asyncagents.domain.fact import Resume, Retrieve
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.task.account import ended_runs, run_account, session_account
from asyncagents.domain.task.task import Account, FollowUp, Phase, Progress, RunBaseline, Task, resume_run
from asyncagents.domain.task.view import background_task
from asyncagents.errors import NotFound
from asyncagents.store.row import (
    SessionRow,
    find_session,
    merge_body,
    require_session,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.admit import admit_input

NO_QUESTIONS = Rule(permission="question", pattern="*", action="deny")
_log = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder(Task)
PlaceOf: TypeAlias = Callable[[Tx, Control], Awaitable[int]]


def decode_task(row: Row) -> Task:
    try:
        return _decoder.decode(row[0])
    except DECODE_ERRORS as error:
        raise unreadable_error("task", row[0], error) from error


async def find_task(tx: Tx, task_id: SessionId) -> Task | None:
    row = await tx.one("task", task_id)
    return decode_task(row) if row is not None else None


async def readable_task(tx: Tx, task_id: SessionId) -> Task | None:
    """Find a task; None if it is missing or cannot be read, so that other sessions are not affected."""
    try:
        return await find_task(tx, task_id)
    except Unreadable as error:
        _log.warning("task=%s action=skip: the task cannot be read: %s", task_id, error)
        return None


async def readable_session(tx: Tx, session_id: SessionId) -> SessionRow | None:
    """Find a session; None if it is missing, or it or one of its calls cannot be read."""
    try:
        await unsettled_calls(tx, session_id)
        return await find_session(tx, session_id)
    except Unreadable as error:
        _log.warning("session=%s action=skip: the session cannot be read: %s", session_id, error)
        return None


async def require_task(tx: Tx, task_id: SessionId) -> Task:
    task = await find_task(tx, task_id)
    if task is None:
        raise NotFound("task", task_id)
    return task


def fold_case(text: str) -> str:
    """Fold case for a search. Zero bytes are replaced: a pattern would end at one."""
    return text.casefold().replace("\0", "\ufffd")


def task_columns(task: Task) -> tuple[object, ...]:
    """The columns of a task that queries use."""
    sought = task.status, task.agent, fold_case(task.description), task.created, task.ended, task.kind
    return task.id, task.parent_id, task.batch, task.live, task.crowd, task.due, *sought


async def put_task(tx: Tx, task: Task, *, new: bool = False) -> None:
    """Write a task and publish the change."""
    if task.due is not None and task.live:
        tx.schedule(task.due)
    columns = task_columns(task)
    rev = await tx.rev()
    if not await tx.run("put_task", *columns, encode_body(task), SHAPE_VERSION, rev):
        old = await tx.one("task", task.id)
        assert old is not None
        await tx.run("put_task", *columns, *merge_body(old[0], old[1], task), rev)
    shown = background_task(task, None)
    if new:
        tx.emit(TaskCreated(session_id=task.id, task=shown))
    elif task.retrieved is not None or task.gone:  # its end was published before, once
        tx.emit(TaskUpdated(session_id=task.id, task=shown))
    else:
        tx.emit(task_event(shown))


async def resume_task(tx: Tx, fact: Resume) -> None:
    """Admit a follow-up to a task, and begin its next run if it has ended; the same key changes nothing."""
    task = await require_task(tx, fact.task_id)
    if not (await admit_input(tx, fact.follow)).new:
        return
    follow = FollowUp(fact.follow.message.id, fact.prompt, tx.now)
    before = None if task.live else await _next_run_start(tx, task)
    await put_task(tx, resume_run(task, follow, fact.call_id, before))
    if fact.call_id is None and not task.background:
        await deny_questions(tx, task.id)


async def _next_run_start(tx: Tx, task: Task) -> RunBaseline:
    """Account with which the next run of a task begins. People may have used its session since it ended."""
    row = await find_session(tx, task.id)
    base = await account_so_far(tx, row.info) if row else Account()
    return RunBaseline(base, ended_runs(task))


async def deny_questions(tx: Tx, child: SessionId) -> None:
    """Deny questions to a child that its parent no longer waits for: they might never be answered."""
    row = await require_session(tx, child)
    own = row.info.permission or ()
    if NO_QUESTIONS not in own:
        await save_session(tx, row, row.control, replace(row.info, permission=(*own, NO_QUESTIONS)))


async def retrieve_result(tx: Tx, fact: Retrieve) -> None:
    """Record that the parent has read a result, and consume its notice."""
    task = await require_task(tx, fact.task_id)
    await tx.run("consume_notices", task.id, fact.run)
    if task.run == fact.run and not task.live:
        await put_task(tx, replace(task, retrieved=tx.now))


class QueuePlace(Struct, frozen=True):
    """The place of a session in the queue of its tree, from 1; 0: it does not queue."""

    number: int
    crowd: int
    """How many sessions of its tree may work at once; 0: no limit."""


async def find_place(tx: Tx, control: Control) -> QueuePlace:
    """Count the sessions that work or wait before this one; without a limit of its own it never queues."""
    row = await tx.one("queue", control.root_id, control.id)
    assert row is not None
    crowd, working, before = row
    return QueuePlace(0, 0) if crowd is None else QueuePlace(max(0, int(working + before - crowd + 1)), crowd)


async def place_in_queue(tx: Tx, control: Control) -> int:
    """The place of a session in the queue of its tree, from 1; 0: it does not queue."""
    return (await find_place(tx, control)).number


async def progress(tx: Tx, task: Task, place_of: PlaceOf = place_in_queue) -> Progress:
    """Read what a task's session has done in this run, and its phase."""
    row = await find_session(tx, task.id)
    if row is None:
        return Progress(updated=task.ended or task.created)
    done = run_account(task, await account_so_far(tx, row.info))
    phase, place = await _phase(tx, row.control, place_of) if task.live else ("waiting", None)
    return Progress(
        tool_calls=done.tool_calls,
        by_name=done.by_name,
        last_tools=done.last_tools,
        tokens=done.tokens,
        cost=done.cost,
        updated=row.info.time.updated,
        phase=phase,
        place=place,
    )


async def account_so_far(tx: Tx, info: Session) -> Account:
    """Sum up the tools, tokens and cost of a session over all runs."""
    return session_account(info, [row[0] for row in await tx.all("tools_used", info.id)])


async def _phase(tx: Tx, control: Control, place_of: PlaceOf) -> tuple[Phase, int | None]:
    if control.state == "ready":
        place = await place_of(tx, control)
        return ("queued", place) if place else ("waiting", None)
    if control.state == "running":
        if any(isinstance(call.state, Running) for call in await unsettled_calls(tx, control.id)):
            return "tool", None
        return ("streaming", None) if await tx.one("is_asked", control.id) else ("waiting", None)
    return "waiting", None


async def tasks_of(tx: Tx, parent_id: SessionId) -> tuple[Task, ...]:
    """Read the tasks of a parent, oldest first; unreadable ones are left out."""
    return _readable(await tx.all("tasks_of", parent_id))


async def live_tasks_of(tx: Tx, parent_id: SessionId) -> tuple[Task, ...]:
    return _readable(await tx.all("live_tasks_of", parent_id))


def _readable(rows: list[Row]) -> tuple[Task, ...]:
    found = []
    for row in rows:
        with suppress(Unreadable):
            found.append(decode_task(row))
    return tuple(found)


def waits_for(call: Call) -> Open | None:
    """The open state of a call that waits for a task to end, else None."""
    return call.open if call.open and call.open.kind == "task" else None


async def without_read_follow_up(tx: Tx, task: Task) -> Task:
    """Drop the follow-up from a task if its child has read it."""
    if task.follow is None:
        return task
    row = await tx.one("input", task.follow.message_id)
    return task if row is not None and row[2] == "queued" else replace(task, follow=None)
