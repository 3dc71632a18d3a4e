"""All that the rows say of trees of sessions."""

import json
import sqlite3
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from asyncagents.domain.task.task import Task
from tests.simulation.checker import all_calls
from tests.simulation.stage import Violation


class Notice(Struct, frozen=True):
    task_id: str
    run: int
    session_id: str
    seq: int
    state: str
    message_id: str | None
    end: dict[str, Any]


def _notice(*columns: Any) -> Notice:
    task_id, run, session_id, seq, state, message_id, body = columns
    return Notice(task_id, run, session_id, seq, state, message_id, json.loads(body))


class Cancel(Struct, frozen=True):
    session_id: str
    rev: int
    at: int


class Forest:
    """All that the rows say of trees."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.tasks = {
            row[0]: msgspec.json.decode(row[1], type=Task) for row in db.execute("SELECT id, body FROM task")
        }
        query = "SELECT task_id, run, session_id, seq, state, message_id, body FROM notice"
        self.notices = [_notice(*row) for row in db.execute(query)]
        self.calls = all_calls(db)
        self.parents = dict(db.execute("SELECT id, parent_id FROM session"))
        self.cancels = [
            Cancel(*row) for row in db.execute("SELECT session_id, rev, at FROM cancel ORDER BY rev")
        ]
        first = "SELECT session_id, MIN(seq) FROM input GROUP BY session_id"
        self.first = dict(db.execute(first))
        """When a session was born."""
        turns = """SELECT session_id, turn, MIN(rev) FROM message
                   WHERE info ->> 'role' = 'user' AND turn > 0 GROUP BY session_id, turn"""
        self.turns = {(row[0], row[1]): row[2] for row in db.execute(turns)}
        """When a turn began."""
        told = "SELECT message_id, seq FROM input WHERE source = 'notice'"
        self.told: dict[str, int] = dict(db.execute(told))
        """When a message of notices was told."""
        self.changed: dict[str, int] = dict(db.execute("SELECT id, rev FROM call"))
        self.runs: dict[str, int] = {task.id: task.run for task in self.tasks.values()}
        self.ends = {(each.task_id, each.run): each.seq for each in self.notices}

    def below(self, session_id: str) -> set[str]:
        """With itself."""
        found = {session_id}
        while more := {each for each, above in self.parents.items() if above in found} - found:
            found |= more
        return found

    def kind_at_birth(self, task: Task) -> str:
        """How it was launched: by a call of `task` that waited for it, or in the background."""
        calls = (call for call in self.calls.values() if call.message_id == task.message_id)
        waited = any(call.tool == "task" and call.input.get("prompt") == task.prompt for call in calls)
        return "sync" if waited else "background"

    def ended_at(self, task: Task, rev: int) -> bool | None:
        """Whether it had ended at a revision; None: the rows do not tell."""
        end = self.ends.get((task.id, 0))
        if end is None or end > rev:
            return False
        return True if task.run == 0 else None


def fail(invariant: str, text: str) -> NoReturn:
    raise Violation(f"{invariant}: {text}")
