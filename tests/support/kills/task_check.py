"""What the rows of a fan-out must say at its end, however often the process died over it."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from asyncagents.domain.call.call import IN_DOUBT, Call, Completed, Failed, Settled
from asyncagents.domain.task.task import Task
from tests.simulation.stage import Violation
from tests.support.kills.ledger import read_lines

FINISHED = "All of it is done."


def job(number: int) -> str:
    return f"job {number}"


def result(number: int) -> str:
    return f"the result of {job(number)}"


def check_fan_out(database: Path, ledger: Path, root: str, jobs: int) -> Counter[str]:
    """Raises `Violation`; returns how much of everything there was."""
    with closing(sqlite3.connect(database)) as db:
        tasks = [msgspec.json.decode(row[0], type=Task) for row in db.execute("SELECT body FROM task")]
        calls = {
            row[0]: msgspec.json.decode(row[1], type=Call) for row in db.execute("SELECT id, body FROM call")
        }
        _check_tasks(db, tasks, root, jobs)
        notices = _check_notices(db, tasks, root)
        _check_rest(db, root)
        cut = db.execute("SELECT COUNT(*) FROM message WHERE hidden").fetchone()[0]
    counts = _check_effects(ledger, calls)
    if (launches := sum(call.tool == "asyncagents_task" for call in calls.values())) != jobs:
        raise Violation(f"{launches} calls launched {jobs} tasks")
    return counts + Counter({"tasks": len(tasks), "notices": notices, "cut off steps": cut})


def _check_tasks(db: sqlite3.Connection, tasks: list[Task], root: str, jobs: int) -> None:
    """Each was launched once, is the only child of its name, ended once, well, with what it had to say."""
    launched = Counter(task.description for task in tasks)
    if launched != Counter(job(number) for number in range(jobs)):
        raise Violation(f"other tasks than those that were launched: {launched}")
    children = {row[0] for row in db.execute("SELECT id FROM session WHERE parent_id = ?", (root,))}
    if children != {task.id for task in tasks}:
        raise Violation("there are children without a task, or tasks without a child")
    for task in tasks:
        said = (task.status, task.ended_by, task.run, task.result)
        if said != ("completed", None, 0, f"the result of {task.description}"):
            raise Violation(f"{task.description} ended as {said}, {task.error}")


def _check_notices(db: sqlite3.Connection, tasks: list[Task], root: str) -> int:
    """One for each end; its row names the message that tells it, and no other message does."""
    rows = db.execute("SELECT task_id, run, session_id, state, open, message_id FROM notice").fetchall()
    wrong = [row for row in rows if row[1:5] != (0, root, "told", 0)]
    if wrong or {row[0] for row in rows} != {task.id for task in tasks}:
        raise Violation(f"notices that were not told once to whoever launched: {wrong or rows}")
    told_by = {row[0]: row[5] for row in rows}
    seen: Counter[tuple[str, str]] = Counter()
    for message_id, text in _texts(db, root, "user"):
        seen.update((message_id, task.id) for task in tasks if f'Agent "{task.description}" finished' in text)
    if seen != Counter((told_by[task.id], task.id) for task in tasks):
        raise Violation(f"what the parent was told: {seen}, its rows: {told_by}")
    return len(set(told_by.values()))


def _check_rest(db: sqlite3.Connection, root: str) -> None:
    """Nothing is left to do, and the last word is the parent's, to all of it."""
    left = db.execute("SELECT id, state, in_turn FROM session WHERE state <> 'idle' OR in_turn").fetchall()
    if left:
        raise Violation(f"sessions that are not at rest: {left}")
    final = [message_id for message_id, text in _texts(db, root, "assistant") if text == FINISHED]
    last = db.execute(
        "SELECT id FROM message WHERE session_id = ? AND NOT hidden ORDER BY position DESC LIMIT 1", (root,)
    ).fetchone()[0]
    if final != [last]:
        raise Violation(f"the parent's last word should be said once, at the end: {final}, and last {last}")


def _texts(db: sqlite3.Connection, session_id: str, role: str) -> Iterator[tuple[str, str]]:
    """What is visible of a session, for its model and for people."""
    query = (
        "SELECT part.message_id, part.body FROM part JOIN message ON message.id = part.message_id "
        "WHERE message.session_id = ? AND NOT message.hidden AND message.info ->> '$.role' = ?"
    )
    for message_id, raw in db.execute(query, (session_id, role)):
        part: dict[str, Any] = msgspec.json.decode(raw)
        if part["type"] == "text" and not part.get("synthetic"):
            yield message_id, part["text"]


def _check_effects(ledger: Path, calls: dict[str, Call]) -> Counter[str]:
    """What may happen once did so once, unless its call says that nobody knows."""
    counts: Counter[str] = Counter()
    effects = Counter(line.call for line in read_lines(ledger) if line.what == "effect")
    for call in (call for call in calls.values() if call.tool in ("pay", "put")):
        outcome = call.state.result if isinstance(call.state, Settled) else None
        times, doubt = effects.pop(call.id, 0), isinstance(outcome, Failed) and outcome.error == IN_DOUBT
        counts["in doubt"] += doubt
        counts["effects"] += times
        counts["put again"] += times > 1
        right = (times <= 1 if doubt else times == 1) if call.tool == "pay" else times >= 1
        if not right or not (doubt or outcome == Completed("paid")):
            raise Violation(f"{call.tool} {call.id} took effect {times} times, and its result is {outcome}")
    if effects:
        raise Violation(f"effects of calls that have no row: {effects}")
    return counts
