"""The promises about tasks, read from the rows alone when everything is at rest."""

import sqlite3
from collections import Counter
from pathlib import Path

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.call import ABORTED, Call, Completed, Failed, Settled
from asyncagents.domain.task.account import all_runs
from asyncagents.domain.task.task import Task
from asyncagents.domain.task.texts import sync_output_text
from tests.simulation.cancel_checker import check_cancels
from tests.simulation.forest import Forest, fail
from tests.simulation.notice_checker import check_notices
from tests.simulation.stage import Stage
from tests.simulation.trees import MOST_SESSIONS

SLACK_MS = 45_000


def check_trees(stage: Stage, path: Path, limits: DelegationConfig) -> None:
    db = sqlite3.connect(path)
    try:
        forest = Forest(db)
        _check_limits(forest, limits)
        _check_kinds(stage, forest)
        for task in forest.tasks.values():
            _check_task(forest, task, limits.seconds)
            _check_end(forest, task)
            _check_sync(forest, task)
            _check_fork(forest, task)
        _check_follow_ups(stage, forest)
        check_notices(forest)
        check_cancels(stage, forest)
        _count(stage, forest)
    finally:
        db.close()


def _count(stage: Stage, forest: Forest) -> None:
    stage.counts["tasks"] = len(forest.tasks)
    stage.counts["ends"] = len(forest.notices)
    stage.counts["forks"] = sum(task.forked for task in forest.tasks.values())
    for notice in forest.notices:
        stage.count(f"notices {notice.state}")
    for task in forest.tasks.values():
        stage.count(f"tasks {task.status}")


def _check_kinds(stage: Stage, forest: Forest) -> None:
    """Z-03: lists are made of what the task says; Z-05: its runs sum up to no more than its session did."""
    for task_id, kind in forest.db.execute("SELECT id, kind FROM task"):
        if kind != forest.tasks[task_id].kind:
            fail("Z-03", f"{task_id} is listed as {kind}")
    if stage.forgets:  # settled calls are not kept for ever
        return
    for task in forest.tasks.values():
        calls = sum(call.session_id == task.id for call in forest.calls.values())
        sums = task.account if task.run == 0 else all_runs(task, task.account)
        if not task.live and not task.gone and sums is not None and sums.tool_calls > calls:
            fail("Z-05", f"the runs of {task.id} sum up to {sums.tool_calls} calls, and it made {calls}")


def _check_limits(forest: Forest, limits: DelegationConfig) -> None:
    """D-10: no deeper and no more than may be."""
    deepest = forest.db.execute("SELECT MAX(depth) FROM session").fetchone()[0] or 0
    if deepest > limits.depth:
        fail("D-10", f"a session stands {deepest} deep, and {limits.depth} is the limit")
    for parent_id, many in Counter(task.parent_id for task in forest.tasks.values()).items():
        if many > limits.spawns:
            fail("D-10", f"{parent_id} launched {many} tasks, not {limits.spawns}")
    if len(forest.parents) > MOST_SESSIONS:
        fail("D-10", f"{len(forest.parents)} sessions")


def _check_task(forest: Forest, task: Task, seconds: float | None) -> None:
    """One terminal state; each run ended once, and each end is kept for its parent."""
    live = forest.db.execute("SELECT live FROM task WHERE id = ?", (task.id,)).fetchone()[0]
    if task.live or live:
        fail("T-03", f"task {task.id} is still {task.status}")
    if task.ended is None or task.account is None:
        fail("T-03", f"task {task.id} is {task.status} and never ended")
    _check_deadline(task, seconds)
    runs = sorted(each.run for each in forest.notices if each.task_id == task.id)
    if runs != list(range(task.run + 1)):
        fail("T-12", f"task {task.id} has {task.run + 1} runs, and notices of the runs {runs}")
    if task.parent_id not in forest.parents:
        fail("T-03", f"task {task.id} outlives {task.parent_id}, who launched it")
    last = next(each for each in forest.notices if (each.task_id, each.run) == (task.id, task.run))
    if (last.end["status"], last.end.get("result")) != (task.status, task.result):
        fail("T-12", f"the notice of {task.id} says {last.end}, the task {task.status}")


def _check_deadline(task: Task, seconds: float | None) -> None:
    """D-10: it is ended in its time, or as soon as somebody looks."""
    if seconds is None or task.run or task.ended is None:
        return
    if task.ended > task.began + seconds * 1000 + SLACK_MS:
        fail("D-10", f"task {task.id} took {task.ended - task.began} ms, and {seconds} s is the limit")


def _check_end(forest: Forest, task: Task) -> None:
    """DESIGN §4: a task with live children, open calls or unread input is not finished."""
    end, run = forest.ends[task.id, task.run], task.run
    assert task.ended is not None
    for child in forest.tasks.values():
        if child.parent_id != task.id or child.id not in forest.first:
            continue
        if (forest.ends[task.id, 0] > forest.first[child.id]) and not forest.ends[child.id, 0] <= end:
            fail("T-09", f"task {task.id} ended while {child.id}, which it had launched, was at work")
        if child.began < task.ended and (child.ended or 0) > task.ended:
            fail("T-09", f"run {run} of {task.id} ended while {child.id} was at work")
    if task.status == "cancelled" or task.id not in forest.parents:
        return
    for call in forest.calls.values():
        late = isinstance(call.state, Settled) and call.state.at > task.ended
        if call.session_id == task.id and call.created < task.ended and late:
            fail("T-09", f"task {task.id} ended while its call {call.id} ({call.tool}) was open")
    _check_read(forest, task, end)


def _check_read(forest: Forest, task: Task, end: int) -> None:
    """Who is given up as a crash loop leaves what it has not read to the next prompt, answered by that."""
    if task.ended_by == "crash":
        return
    cancelled = [each.rev for each in forest.cancels if each.session_id == task.id]
    query = """SELECT input.seq, message.rev, part.body ->> 'text' FROM input
               JOIN message ON message.id = input.message_id JOIN part ON part.message_id = message.id
               WHERE input.session_id = ? AND input.source = 'person' AND input.state = 'promoted'
                 AND COALESCE(part.body ->> 'synthetic', 0) = 0"""
    for admitted, placed, text in forest.db.execute(query, (task.id,)):
        held = any(admitted < rev for rev in cancelled)
        if admitted < end < placed and not held and ":quiet" not in text:
            fail("T-08", f"task {task.id} ended before it had read {text!r}")


def _check_sync(forest: Forest, task: Task) -> None:
    """The call of a foreground task is settled with what its child came to."""
    call = next((each for each in forest.calls.values() if _launches(each, task)), None)
    if call is None or call.tool != "task":
        return
    assert isinstance(call.state, Settled)
    result = call.state.result
    if isinstance(result, Failed) and result.error == ABORTED:
        return
    metadata = result.metadata
    if metadata.get("background"):
        return
    assert task.ended is not None
    if task.run == 0 and not _says(result, task):
        fail("D-01", f"the call {call.id} says {result}, its task {sync_output_text(task)}")
    if task.run == 0 and call.state.at != task.ended:
        fail("D-01", f"the call {call.id} was settled at {call.state.at}, its task ended at {task.ended}")


def _launches(call: Call, task: Task) -> bool:
    result = call.state.result if isinstance(call.state, Settled) else None
    child = result.metadata.get("sessionId") if result else None
    return call.message_id == task.message_id and child == task.id


def _says(result: Completed | Failed, task: Task) -> bool:
    if task.status == "completed":
        return isinstance(result, Completed) and result.output == sync_output_text(task)
    return isinstance(result, Failed) and result.error == sync_output_text(task)


def _check_fork(forest: Forest, task: Task) -> None:
    """T-11: a fork begins with copies, and nothing else does."""
    texts = """SELECT part.body ->> 'text' FROM message JOIN part ON part.message_id = message.id
               WHERE message.session_id = ? AND message.info ->> 'role' = 'user'
                 AND part.body ->> 'type' = 'text' AND message.position IS NOT NULL {}"""
    copied = [row[0] for row in forest.db.execute(texts.format("AND message.turn = 0"), (task.id,))]
    if not task.forked and copied:
        fail("T-11", f"{task.id} is no fork and begins with {copied[:2]}")
    told = {row[0] for row in forest.db.execute(texts.format(""), (task.parent_id,))}
    if task.forked and copied and not any(text in told for text in copied):
        fail("T-11", f"the fork {task.id} begins with {copied[:2]}, which its parent never read")
    if task.forked and task.id in forest.parents and not copied:
        fail("T-11", f"the fork {task.id} begins with nothing")


def _check_follow_ups(stage: Stage, forest: Forest) -> None:
    """T-08: what was acknowledged as a follow-up is there, once, for its task."""
    query = """SELECT input.session_id, part.body ->> 'text' FROM input
               JOIN part ON part.message_id = input.message_id WHERE input.source = 'person'"""
    said = Counter(forest.db.execute(query).fetchall())
    wanted = {text: str(task_id) for text, task_id in stage.follow_ups.items()}
    for call in forest.calls.values():
        task_id = _followed(call)
        if task_id is not None:
            wanted[call.input["prompt"]] = task_id
    for text, task_id in wanted.items():
        if task_id in forest.parents and said[task_id, text] != 1:
            fail("T-08", f"the follow-up {text!r} stands {said[task_id, text]} times in {task_id}")


def _followed(call: Call) -> str | None:
    """The task to which this call took a follow-up."""
    if call.tool not in ("task", "asyncagents_task") or not isinstance(call.state, Settled):
        return None
    given, result = call.input.get("resume") or call.input.get("task_id"), call.state.result
    if not given or (isinstance(result, Failed) and "sessionId" not in result.metadata):
        return None
    return str(result.metadata["sessionId"])
