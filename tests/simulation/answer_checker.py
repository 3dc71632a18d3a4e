"""The promises to blocking callers: each gets its own answer, and none is held for the outside alone."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.call.call import LONG_WAIT_MS, Call, Open

Query = Callable[..., list[tuple[Any, ...]]]
HELD = """SELECT DISTINCT session.id FROM session JOIN input ON input.session_id = session.id
          WHERE session.state = 'idle' AND session.in_turn AND session.backoff IS NULL
            AND input.state = 'promoted' AND input.turn = session.turn AND input.answer_id IS NULL"""
PLACED = """SELECT message.id, message.session_id, message.turn, message.info, input.source, input.answer_id
            FROM message LEFT JOIN input ON input.message_id = message.id
            WHERE message.position IS NOT NULL AND message.hidden = 0 AND message.turn > 0
            ORDER BY message.session_id, message.position"""


class Line(Struct, frozen=True):
    """A message in the order in which the model read it."""

    id: str
    session_id: str
    turn: int
    final: bool
    step: bool
    source: str | None
    answer: str | None


def find_foreign_answer(db: sqlite3.Connection) -> str | None:
    """Z-02: what was asked before a final step is answered by then, unless the runtime itself went on."""
    lines = [_line(row) for row in db.execute(PLACED)]
    places = {line.id: place for place, line in enumerate(lines)}
    for place, line in enumerate(lines):
        if line.final and _joins(lines, place):
            for asked in lines[:place]:
                same = (asked.session_id, asked.turn) == (line.session_id, line.turn)
                if same and asked.source and places.get(asked.answer or "", 0) > place:
                    return f"{asked.id} got the answer {asked.answer}, and not {line.id}"
    return None


def _line(row: tuple[Any, ...]) -> Line:
    message_id, session_id, turn, raw, source, answer = row
    info = json.loads(raw)
    step = info["role"] == "assistant"
    answers = step and "error" not in info and "summary" not in info
    final = answers and info.get("finish") not in (None, "tool-calls")
    return Line(message_id, session_id, turn, final, step, source, answer)


def _joins(lines: list[Line], place: int) -> bool:
    """Whether prompts or notices, and nothing of the runtime's own, came into the turn after a step."""
    step, sources = lines[place], []
    for line in lines[place + 1 :]:
        if line.step or (line.session_id, line.turn) != (step.session_id, step.turn):
            break
        sources += [line.source] if line.source else []
    return bool(sources) and "system" not in sources


def find_held(query: Query) -> list[str]:
    """Z-01: sessions whose callers are held though all that their turn waits for is outside."""
    return [row[0] for row in query(HELD) if _is_outside(query, row[0])]


def _is_outside(query: Query, session_id: str) -> bool:
    state = query("SELECT state, backoff FROM session WHERE id = ?", session_id)
    if not state or state[0] != ("idle", None):
        return False
    rows = query("SELECT body FROM call WHERE session_id = ? AND state <> 'settled'", session_id)
    calls = [msgspec.json.decode(row[0], type=Call) for row in rows]
    if not calls:
        return _are_children_outside(query, session_id)
    return all(call.open and _waits(query, session_id, call.open) for call in calls)


def _are_children_outside(query: Query, session_id: str) -> bool:
    live = query("SELECT id FROM task WHERE parent_id = ? AND live = 1", session_id)
    return bool(live) and all(_is_outside(query, row[0]) for row in live)


def _waits(query: Query, session_id: str, state: Open) -> bool:
    """Told apart anew, not by what the product says of a call."""
    if state.kind == "async":
        return True
    if state.kind == "task":
        return _is_outside(query, str(state.metadata.get("sessionId")))
    if state.kind != "wait":
        return False
    if state.watch is None:
        return state.due is None or state.due - state.since >= LONG_WAIT_MS
    if not state.watch.any:
        return _is_outside(query, state.watch.task_id)
    return _are_children_outside(query, session_id)
