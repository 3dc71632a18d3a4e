"""What a ledger that several processes wrote, and that some of them died over, must look like."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents.domain.call.call import ABORTED, IN_DOUBT, Call, Completed, Failed, Settled
from asyncagents.domain.id import CallId, SessionId
from asyncagents.store.verb.claim import CUT_OFF
from tests.simulation.stage import Effect, Stage, Violation
from tests.support.kills.worker import Line


class Abort(Struct, frozen=True):
    session_id: SessionId
    asked: int
    acknowledged: int


class Outside(Stage):
    """What was acknowledged to people; what tools did is in the ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.aborts: list[Abort] = []


def read_lines(path: Path) -> list[Line]:
    """Without lines that a kill tore, or that are still being written."""
    lines = []
    for raw in path.read_bytes().split(b"\n"):
        try:
            lines.append(msgspec.json.decode(raw, type=Line))
        except msgspec.DecodeError:
            continue
    return lines


def check_ledger(outside: Outside, path: Path, database: Path) -> Counter[str]:
    """Raises `Violation`; returns how much of everything there was. Leaves the effects with `outside`."""
    lines = read_lines(path)
    calls = _calls(database)
    for line in lines:
        if line.what == "wrong":
            raise Violation(f"I12: {line.call} in {line.session}")
        if line.what == "effect":
            outside.effects.append(
                Effect(CallId(line.call), SessionId(line.session), line.tool, line.worker, line.at / 1000)
            )
    owners = Owners()
    for line in lines:
        owners.read(line)
    _check_requests(lines)
    _check_once(outside, calls)
    _check_aborts(outside, calls)
    counts = Counter({"broken off": owners.broken_off, "calls": len(calls), "prompts": len(outside.prompts)})
    counts.update(line.what for line in lines)
    counts.update(_outcome(call) for call in calls.values())
    counts["cut off steps"] = _count(database, CUT_OFF)
    counts["run again"] = sum(
        n - 1 for n in Counter(line.call for line in lines if line.what == "enter" and line.call).values()
    )
    return counts


def _calls(database: Path) -> dict[str, Call]:
    with closing(sqlite3.connect(database)) as db:
        return {
            row[0]: msgspec.json.decode(row[1], type=Call) for row in db.execute("SELECT id, body FROM call")
        }


def _count(database: Path, error: str) -> int:
    with closing(sqlite3.connect(database)) as db:
        query = "SELECT COUNT(*) FROM message WHERE hidden AND info ->> '$.error.data.message' = ?"
        return int(db.execute(query, (error,)).fetchone()[0])


def _outcome(call: Call) -> str:
    result = call.state.result if isinstance(call.state, Settled) else None
    return "in doubt" if isinstance(result, Failed) and result.error == IN_DOUBT else "settled"


class Owners:
    """Who works on what, line by line."""

    def __init__(self) -> None:
        self.broken_off = 0
        """So often somebody took up what a kill had broken off."""
        self._inside: dict[str, list[int]] = {}
        self._killed: set[int] = set()
        self._replaced: set[int] = set()

    def read(self, line: Line) -> None:
        """I5: who enters a session finds nobody in it, save the dead; and the dead do nothing more."""
        if line.worker in self._replaced:
            raise Violation(f"I5: worker {line.worker} was taken for dead and then wrote {line}")
        match line.what:
            case "killing":
                self._killed.add(line.worker)
            case "enter":
                self._enter(line.session, line.worker)
            case "leave":
                self._inside[line.session].remove(line.worker)
            case "stopped" if any(line.worker in busy for busy in self._inside.values()):
                raise Violation(f"worker {line.worker} stopped in the middle of its work")
            case _:
                pass

    def _enter(self, session: str, worker: int) -> None:
        busy = self._inside.setdefault(session, [])
        others = {other for other in busy if other != worker}
        if others - self._killed:
            raise Violation(f"I5: {others} and {worker} work on {session} at the same time")
        self._replaced |= others
        self.broken_off += len(others)
        busy[:] = [*(each for each in busy if each == worker), worker]


def _check_requests(lines: list[Line]) -> None:
    """I12: each request extends the one before it, whoever sends it."""
    before: dict[str, tuple[str, ...]] = {}
    for line in lines:
        if line.what == "asked":
            told = before.get(line.session, ())
            if line.marks[: len(told)] != told:
                raise Violation(f"I12: what was sent in {line.session} has changed: {told} to {line.marks}")
            before[line.session] = line.marks


def _check_once(outside: Outside, calls: dict[str, Call]) -> None:
    """I8: an effect that may happen once did, and whoever cannot say so is in doubt or was aborted."""
    seen = Counter(effect.call_id for effect in outside.effects)
    for call_id, times in seen.items():
        call = calls.get(call_id)
        if call is None:
            raise Violation(f"I8: a tool ran for {call_id}, which has no row")
        if call.effect == "once" and times > 1:
            raise Violation(f"I8: {call.tool} {call_id} took effect {times} times")
        result = call.state.result if isinstance(call.state, Settled) else None
        told = isinstance(result, Failed) and result.error in (IN_DOUBT, ABORTED)
        if result != Completed("paid") and not told:
            raise Violation(f"I8: {call.tool} {call_id} took effect and its result is {result}")


def _check_aborts(outside: Outside, calls: dict[str, Call]) -> None:
    """I9: after an abort was acknowledged nothing of that turn touches the world."""
    for effect in outside.effects:
        call, at = calls[effect.call_id], effect.at * 1000
        for abort in outside.aborts:
            covers = abort.session_id == call.session_id and call.created < abort.asked
            if covers and abort.acknowledged < at:
                raise Violation(f"I9: {call.tool} ran at {at}, its turn was aborted at {abort.acknowledged}")
