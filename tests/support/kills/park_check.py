"""What must stand in the rows, and must have been told to the model, however often processes died over it."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.call.call import Call, Completed, Failed, Settled
from asyncagents.domain.id import CallId
from asyncagents.store.verb.claim import CUT_OFF
from tests.simulation.stage import Violation
from tests.support.kills.park_worker import Line, Reader

FINISHED = "All of it is done."


class Plan(Struct, frozen=True):
    """A session: what is said to it first, and the calls of each of its steps."""

    prompt: str
    session_id: str
    batches: tuple[int, ...]
    chat: bool = False
    """Somebody speaks to it meanwhile: it takes more steps, nobody knows how many."""


def check_parked(
    database: Path, ledger: Path, plans: Sequence[Plan], requests: Sequence[dict[str, Any]]
) -> Counter[str]:
    """Raises `Violation`; returns how much of everything there was."""
    lines = list(Reader(ledger).news())
    told = {plan.prompt: [body for body in requests if _prompt(body) == plan.prompt] for plan in plans}
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute("SELECT body FROM call")
        calls = [msgspec.json.decode(row[0], type=Call) for row in rows]
        _check_rest(db, calls)
        counts = _check_results(lines, calls)
        for plan in plans:
            counts += _check_steps(db, plan, told[plan.prompt])
            _check_requests(
                plan, [call for call in calls if call.session_id == plan.session_id], told[plan.prompt]
            )
    counts.update(line.what for line in lines)
    counts["calls"], counts["sessions"] = len(calls), len(plans)
    return counts


def _prompt(body: dict[str, Any]) -> str:
    first = next(message for message in body["messages"] if message["role"] == "user")
    content = first["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def _check_rest(db: sqlite3.Connection, calls: list[Call]) -> None:
    """Nothing is left waiting that was answered; and everything was."""
    left = db.execute("SELECT id, state, status FROM session WHERE state <> 'idle' OR in_turn").fetchall()
    waiting = [call.id for call in calls if not call.is_settled]
    if left or waiting:
        raise Violation(f"sessions that are not at rest: {left}; calls that wait: {waiting}")


def _check_results(lines: list[Line], calls: list[Call]) -> Counter[str]:
    """What was acknowledged is the call's result, and nothing else is but what was sent."""
    acknowledged: dict[str, set[str]] = {}
    sent: dict[str, set[str]] = {}
    for line in lines:
        if line.what in ("sending", "acknowledged"):
            (sent if line.what == "sending" else acknowledged).setdefault(line.call, set()).add(line.text)
    found = {call.id: _result(call) for call in calls}
    for call_id, texts in acknowledged.items():
        if texts != {found.get(CallId(call_id))}:
            raise Violation(
                f"{texts} was acknowledged for {call_id}, whose result is {found.get(CallId(call_id))}"
            )
    odd = {key: text for key, text in found.items() if text not in sent.get(key, ())}
    if odd:
        raise Violation(f"results that nobody sent: {odd}")
    answered = sum(line.what in ("acknowledged", "refused") for line in lines)
    cut = sum(line.what == "sending" for line in lines) - answered
    unheard = len(found.keys() - acknowledged.keys())
    never = len(found.keys() - {line.call for line in lines if line.what == "job"})
    return Counter({"cut off sends": cut, "settled unheard": unheard, "never begun": never})


def _result(call: Call) -> str:
    assert isinstance(call.state, Settled)
    match call.state.result:
        case Completed(output):
            return output
        case Failed(error):
            return error


def _check_steps(db: sqlite3.Connection, plan: Plan, told: list[dict[str, Any]]) -> Counter[str]:
    """Each finished batch asked the model once, save where a kill cut the answer off."""
    rows = db.execute(
        "SELECT hidden, info ->> '$.error.data.message', id FROM message "
        "WHERE session_id = ? AND info ->> '$.role' = 'assistant'",
        (plan.session_id,),
    ).fetchall()
    seen, hidden = [row for row in rows if not row[0]], [row for row in rows if row[0]]
    errors = [row[1] for row in seen if row[1]] + [row[1] for row in hidden if row[1] != CUT_OFF]
    if errors:
        raise Violation(f"{plan.prompt} has steps that ended with {errors}")
    if not plan.chat and len(seen) != len(plan.batches) + 1:
        raise Violation(f"{plan.prompt} has {len(seen)} answers for {len(plan.batches)} batches")
    if len(told) > len(rows):
        raise Violation(f"{plan.prompt}: the model was asked {len(told)} times for {len(rows)} answers")
    again = sum(n - 1 for n in Counter(_steps(body) for body in told).values())
    if not plan.chat and again > len(hidden):
        raise Violation(f"{plan.prompt} was resumed {again} times too often; {len(hidden)} were cut off")
    return Counter({"cut off steps": len(hidden), "asked again": again})


def _steps(body: dict[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


def _check_requests(plan: Plan, calls: list[Call], told: list[dict[str, Any]]) -> None:
    """No request shows a result twice; the last one shows all; each extends the one before it."""
    before: list[Any] = []
    for body in told:
        if body["messages"][: len(before)] != before:
            raise Violation(f"{plan.prompt}: what was sent has changed: {before} to {body['messages']}")
        before = body["messages"]
    for call in calls:
        text = _result(call)
        times = [str(body["messages"]).count(text) for body in told]
        if max(times) > 1 or times[-1] != 1:
            raise Violation(f"{plan.prompt}: the model was shown {text} so many times: {times}")
