"""The promises about async calls, when everything is at rest."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from asyncagents.domain.call.call import (
    ABORTED,
    IN_DOUBT,
    TIMED_OUT,
    WAIT_ENDED,
    WAIT_OVER,
    Call,
    Completed,
    Failed,
    Result,
    Settled,
)
from asyncagents.domain.call.late_result import parse_late_result, pending_text, result_text
from asyncagents.domain.call.pending_tool import PendingToolCall, pending_status
from asyncagents.domain.call.reply import LATE_MS, overdue_note, unanswered_result
from asyncagents.domain.shape import encode
from asyncagents.llm.model import RequestMessage, ToolTurn, UserTurn
from tests.simulation.checker import all_calls
from tests.simulation.delivery_checker import check_deliveries
from tests.simulation.park_cast import FOUND
from tests.simulation.park_stage import ParkStage
from tests.simulation.parks import BEGUN, CANCELLED, SENT_OUT, WHO
from tests.simulation.stage import Violation


def forget_old(book: ParkStage, path: Path) -> None:
    """Rows that nobody may ask for any more are gone; what the model has read of them is not."""
    with closing(sqlite3.connect(path)) as db:
        known = {row[0] for row in db.execute("SELECT id FROM call")}
    book.results = {key: result for key, result in book.results.items() if key in known}
    book.effects = [effect for effect in book.effects if effect.call_id in known]
    for call_id, call in book.settled.items():
        if call_id not in known and call.session_id in book.sessions and call.session_id not in book.deleted:
            book.count("forgotten")
            _check_read(call, book.requests[book.name(call.session_id)])


def _check_read(call: PendingToolCall, told: Sequence[RequestMessage]) -> None:
    text = call.result.output if call.result else call.error
    read = [each.output for each in told if isinstance(each, ToolTurn)]
    read += [
        found.result
        for each in told
        if isinstance(each, UserTurn) and (found := parse_late_result(each.text))
    ]
    if text != CANCELLED.error and read.count(text or "") != 1:
        _fail("P-04", f"the model was told {read.count(text or '')} times of {call.id}, which is forgotten")


def check_parks(book: ParkStage, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        calls = all_calls(db)
        _check_repeats(book, db)
        _check_late(db, calls)
        _check_listed(db, calls)
        check_deliveries(book, db, calls)
    _check_refusals(book, calls)
    for call in calls.values():
        _check_result(book, call)
    for session_id in book.sessions:
        if session_id not in book.deleted:
            own = [call for call in calls.values() if call.session_id == session_id]
            _check_told(own, book.requests[book.name(session_id)])
    _count(book, calls)


def _fail(invariant: str, text: str) -> None:
    raise Violation(f"{invariant}: {text}")


def _result(call: Call) -> Result:
    assert isinstance(call.state, Settled)
    return call.state.result


def _text(result: Result) -> str:
    return result.output if isinstance(result, Completed) else result.error


def _check_repeats(book: ParkStage, db: sqlite3.Connection) -> None:
    """A model is asked twice for the same only if a run was lost meanwhile."""
    query = "SELECT session_id, COUNT(*) FROM request WHERE state <> 'done' GROUP BY session_id"
    lost = {book.name(row[0]): row[1] for row in db.execute(query)}
    for session, many in book.repeats.items():
        known = book.known(session)
        if known is not None and known.id in book.deleted:
            continue
        if many > lost.get(session, 0):
            _fail("P-04", f"{session} was asked {many} times for the same, and lost {lost.get(session, 0)}")


def _check_late(db: sqlite3.Connection, calls: dict[str, Call]) -> None:
    """Once for each call that was shown as pending, and for no other."""
    keys = Counter(row[0] for row in db.execute("SELECT key FROM input WHERE key LIKE 'result:%'"))
    for call in calls.values():
        if keys[f"result:{call.id}"] != call.shown_pending:
            _fail("P-04", f"{call.id} ({call.shown_pending=}) came late {keys[f'result:{call.id}']} times")


def _check_refusals(book: ParkStage, calls: dict[str, Call]) -> None:
    """P-05: who was refused was told what had come first, and that it was another."""
    for refused in book.refused:
        call = calls.get(refused.call_id)
        if call is None:
            continue  # deleted, or forgotten
        if _result(call) == refused.result:
            _fail("P-05", f"{refused.result} was refused for {call.id}, and is its result")
        if refused.first != encode(_result(call)).decode()[:200]:
            _fail("P-05", f"{call.id} was said to be {refused.first}, and is {_result(call)}")


def _check_result(book: ParkStage, call: Call) -> None:
    """Nobody made it up: somebody sent it, or its tool said so, or its time was over, or it was ended."""
    if call.tool not in SENT_OUT:
        return
    assert isinstance(call.state, Settled)
    if call.state.expired:
        _check_expiry(book, call, call.state)
        return
    result = _result(call)
    if result in book.offered.get(call.id, ()) or (call.tool == "survey" and call.reply is not None):
        return
    allowed = [Failed(ABORTED), Completed("at once"), Failed("not today")]
    if call.tool == "build":
        allowed.append(Completed(FOUND))
    if call.tool == "nap":
        allowed = [Failed(ABORTED), Completed(WAIT_ENDED)]
    refused = ("The user ", "Not run: ", *([IN_DOUBT] if call.tool == "old" else []))
    if result not in allowed and not _text(result).startswith(refused):
        _fail("P-05", f"{call.tool} {call.id} has the result {result}, and nobody gave it")


def _check_expiry(book: ParkStage, call: Call, state: Settled) -> None:
    """When its tool had said, or, if that was never heard, when such a tool is given up."""
    if call.later is None:  # nobody may ask for it any more
        return
    due = call.later.due
    if state.result not in _expiries(book, call, state):
        _fail("P-07", f"{call.id} timed out with {state.result}")
    usual = BEGUN.get(call.tool)
    heard = due in book.dues.get(call.id, ())
    if due is None or state.at < due or not (heard or (usual and due >= call.created + usual * 1000)):
        _fail("P-07", f"{call.id} timed out at {state.at}, due {due}, of {book.dues.get(call.id)}")


def _expiries(book: ParkStage, call: Call, state: Settled) -> list[Result]:
    """What a call may come to whose time is over; a timer says how late it is, a question who was silent."""
    errand, due = book.errands.get(call.id), call.later.due if call.later else None
    told = errand.on_due if errand and errand.on_due else None
    if call.tool == "nap":
        over = told or Completed(WAIT_OVER)
        late = state.at - due if due is not None else 0
        if isinstance(over, Completed) and late >= LATE_MS:
            book.count("late timers")
            over = replace(over, output=f"{over.output}\n\n{overdue_note(late)}")
        return [over]
    silent = [unanswered_result(due, who, approval=approval) for who, approval in (("", False), (WHO, True))]
    found: list[Result] = [Failed(TIMED_OUT), *(silent if call.tool == "survey" else [])]
    return found if told is None else [*found, told]


def _check_listed(db: sqlite3.Connection, calls: dict[str, Call]) -> None:
    """P-09: it is found by what it is."""
    for call_id, listed in db.execute("SELECT id, pending FROM call"):
        if listed != pending_status(calls[call_id]):
            _fail("P-09", f"{call_id} is listed as {listed}, and is {calls[call_id].state}")


def _check_told(calls: Sequence[Call], told: Sequence[RequestMessage]) -> None:
    """The model has read each result once: in its place, or, if it was shown as pending, in a message."""
    placed = {each.call_id: each.output for each in told if isinstance(each, ToolTurn)}
    texts = [each.text for each in told if isinstance(each, UserTurn)]
    late = Counter(found.call_id for found in map(parse_late_result, texts) if found)
    for call in calls:
        wanted = pending_text(call.call_id, call.tool) if call.shown_pending else _text(_result(call))
        if placed.get(call.call_id) != wanted:
            _fail("P-04", f"in the place of {call.id} stands {placed.get(call.call_id)!r}, not {wanted!r}")
        if late[call.call_id] != call.shown_pending:
            _fail("P-04", f"the model was told {late[call.call_id]} times of {call.id}")
        if call.shown_pending and result_text(call) not in texts:
            _fail("P-04", f"the model was told something else of {call.id}")


def _count(book: ParkStage, calls: dict[str, Call]) -> None:
    for call in calls.values():
        book.count("calls")
        if call.shown_pending:
            book.count("late")
        book.count(f"calls {_kind(call)}")


def _kind(call: Call) -> str:
    assert isinstance(call.state, Settled)
    if call.state.expired:
        return "expired"
    match call.state.result:
        case Failed("cancelled") as result if result == CANCELLED:
            return "cancelled"
        case Failed(error) if error == ABORTED:
            return "aborted"
        case Failed(error) if error.startswith(IN_DOUBT):
            return "in doubt"
        case Failed():
            return "failed"
        case Completed():
            return "completed"
