"""What must stand in the rows and in the ledger, whatever happened to workers, network and database."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.call.call import IN_DOUBT, Call, Completed, Failed, Result, Settled
from asyncagents.domain.id import CallId
from asyncagents.store.verb.claim import CUT_OFF
from tests.simulation.stage import Violation
from tests.support.fleet.crew import Ack, Crew, FleetClient, rows
from tests.support.fleet.worker import MARK, Line

_SESSIONS = "SELECT id, state, owner, in_turn, claims, wake_seq, fence, positions, status FROM session"
_INPUTS = (
    "SELECT message_id, session_id, key, seq, state, answer_id, source FROM input ORDER BY session_id, seq"
)
_MESSAGES = (
    "SELECT message.id, message.session_id, position, hidden, readable(info) ->> 'role', "
    "readable(info) #>> '{error,data,message}', "
    "string_agg(readable(body) ->> 'text', ' ' ORDER BY part.id) "
    "FROM message LEFT JOIN part ON part.message_id = message.id GROUP BY message.id"
)
_REQUESTS = "SELECT session_id, fence, state FROM request ORDER BY session_id, id"


class Message(Struct, frozen=True):
    id: str
    session: str
    position: int | None
    hidden: int
    role: str
    error: str | None
    text: str | None

    @property
    def marks(self) -> list[str]:
        return [f"{found[1]}:{found[2]}" for found in MARK.finditer(self.text or "")]


class History(Struct, frozen=True):
    """All that was recorded."""

    messages: list[Message]
    inputs: list[tuple[Any, ...]]
    sessions: list[tuple[Any, ...]]
    requests: list[tuple[Any, ...]]
    calls: dict[CallId, Call]
    lines: list[Line]

    def of(self, session_id: str) -> list[Message]:
        """What the model reads, in its order."""
        placed = [each for each in self.messages if each.session == session_id and each.position is not None]
        return sorted(placed, key=lambda each: each.position or 0)


async def read_history(store: str, crew: Crew) -> History:
    calls = [msgspec.json.decode(row[0], type=Call) for row in await rows(store, "SELECT body FROM call")]
    return History(
        messages=[Message(*row) for row in await rows(store, _MESSAGES)],
        inputs=await rows(store, _INPUTS),
        sessions=await rows(store, _SESSIONS),
        requests=await rows(store, _REQUESTS),
        calls={call.id: call for call in calls},
        lines=crew.lines(),
    )


async def check_fleet(office: FleetClient, crew: Crew) -> Counter[str]:
    """Raises `Violation`; returns how much of everything there was."""
    history = await read_history(office.store, crew)
    _check_rest(history)
    _check_inputs(history, office.prompts)
    for number, session_id in enumerate(office.sessions):
        _check_order(history, session_id)
        _check_requests_show(history, office, number)
    _check_results(history, office.results)
    _check_once(history)
    _check_fences(history)
    return _counts(history, office)


def _check_rest(history: History) -> None:
    """Nobody is stuck: nothing wants a run, has one, waits to be read, or waits for anything."""
    stuck = [row for row in history.sessions if row[1] != "idle" or row[2] or row[3]]
    unread = [row for row in history.inputs if row[4] != "promoted"]
    waiting = [call.id for call in history.calls.values() if not call.is_settled]
    if stuck or unread or waiting:
        raise Violation(f"stuck: {stuck[:9]}; unread: {unread[:9]}; waiting: {waiting[:9]}")
    signals = Counter(row[1] for row in history.inputs)
    for row in history.sessions:
        if row[5] < signals[row[0]]:
            raise Violation(f"{row[0]} was signalled {signals[row[0]]} times and woken {row[5]} times")


def _check_inputs(history: History, prompts: Mapping[str, Ack]) -> None:
    """What was acknowledged is there, once, where it was said, and was answered."""
    kept = {row[2]: row for row in history.inputs if row[6] == "person"}
    if set(kept) != set(prompts):
        raise Violation(
            f"lost: {sorted(set(prompts) - set(kept))}, extra: {sorted(set(kept) - set(prompts))}"
        )
    messages = {each.id: each for each in history.messages}
    for mark, ack in prompts.items():
        message_id, session_id, _, _, _, answer_id, _ = kept[mark]
        said = messages.get(message_id)
        if (message_id, session_id) != (ack.id, ack.session) or said is None or said.marks != [mark]:
            raise Violation(f"{mark} was acknowledged as {ack}, and is kept as {kept[mark]}: {said}")
        answer = messages.get(answer_id)
        if answer is None or answer.role != "assistant" or answer.session != session_id or answer.hidden:
            raise Violation(f"{mark} was answered by {answer_id}: {answer}")
        if (answer.position or 0) <= (said.position or 0):
            raise Violation(f"{mark} at {said.position} was answered by what stands at {answer.position}")


def _check_order(history: History, session_id: str) -> None:
    """One line of messages without gaps; input stands there once, in the order of its admission."""
    said = history.of(session_id)
    if [each.position for each in said] != list(range(1, len(said) + 1)):
        raise Violation(f"places in {session_id}: {[each.position for each in said]}")
    place = {each.id: each.position for each in said}
    admitted = [place.get(row[0]) for row in history.inputs if row[1] == session_id]
    if None in admitted or admitted != sorted(each or 0 for each in admitted):
        raise Violation(f"{session_id} took its inputs in the order {admitted}")
    wrong = [each for each in said if each.error and (not each.hidden or each.error != CUT_OFF)]
    if wrong:
        raise Violation(f"{session_id} has steps that failed: {wrong}")
    doubled = [mark for mark, n in Counter(m for each in said for m in each.marks).items() if n > 1]
    if doubled:
        raise Violation(f"{session_id} was told twice: {doubled}")


def _check_requests_show(history: History, office: FleetClient, number: int) -> None:
    """No request shows a signal twice; each is a beginning of the longest, which shows them all."""
    session_id, name = office.sessions[number], f"s{number}"
    told = [line.marks for line in history.lines if line.what == "asked" and line.session == name]
    longest = max(told, key=len, default=())
    for each in told:
        if longest[: len(each)] != each or len(set(each)) < len(each):
            raise Violation(f"{name} ({session_id}): the model was shown {each} and {longest}")
    prompts = [mark for each in history.of(session_id) for mark in each.marks if ":p" in mark]
    results = {ack.mark for ack in office.results.values() if ack.session == session_id}
    if [mark for mark in longest if ":p" in mark] != prompts or set(longest) - set(prompts) != results:
        raise Violation(f"{name} ({session_id}): told {longest}, kept {prompts}, acknowledged {results}")


def _check_results(history: History, results: Mapping[CallId, Ack]) -> None:
    for call_id, ack in results.items():
        if (result := _result(history.calls[call_id])) != Completed(f"<{ack.mark}>"):
            raise Violation(f"{ack.mark} was acknowledged for {call_id}, whose result is {result}")


def _result(call: Call) -> Result | None:
    return call.state.result if isinstance(call.state, Settled) else None


def _check_once(history: History) -> None:
    """An effect that may happen once did so at most once, and who cannot say whether is told that."""
    seen = Counter(line.call for line in history.lines if line.what == "effect")
    for call in history.calls.values():
        result, times = _result(call), seen.pop(call.id, 0)
        if call.effect == "once" and times > 1:
            raise Violation(f"{call.tool} {call.id} took effect {times} times")
        doubt = isinstance(result, Failed) and result.error == IN_DOUBT
        if call.tool in ("pay", "put") and not (result == Completed("paid") and times) and not doubt:
            raise Violation(f"{call.tool} {call.id} took effect {times} times, and its result is {result}")
    if seen:
        raise Violation(f"tools ran for calls that are not there: {seen}")


def _check_fences(history: History) -> None:
    """Each claim has a fence of its own, higher than those before it; what is asked is asked under one."""
    fences = {row[0]: row[6] for row in history.sessions}
    claims: dict[str, list[int]] = defaultdict(list)
    for line in history.lines:
        if line.what == "claimed":
            claims[line.session].append(line.fence)
    for session_id, taken in claims.items():
        if len(set(taken)) < len(taken) or max(taken) > fences[session_id]:
            raise Violation(f"{session_id} stands at {fences[session_id]}, and was claimed with {taken}")
    for before, after in pairwise(history.requests):
        if before[0] == after[0] and after[1] < before[1]:
            raise Violation(f"{after[0]} was asked for under {before[1]} and then under {after[1]}")


def _counts(history: History, office: FleetClient) -> Counter[str]:
    counts: Counter[str] = Counter(line.what for line in history.lines)
    counts["prompts"], counts["results"] = len(office.prompts), len(office.results)
    counts["sent twice"] = office.repeats
    counts["turns answered"] = len({row[5] for row in history.inputs if row[6] == "person"})
    counts["cut off steps"] = sum(each.error == CUT_OFF for each in history.messages)
    counts["slowest signal in ms"] = max(_waits(history, office)) // 1000
    results = map(_result, history.calls.values())
    counts["in doubt"] = sum(isinstance(each, Failed) and each.error == IN_DOUBT for each in results)
    return counts


def _waits(history: History, office: FleetClient) -> list[int]:
    """From each acknowledgement to the first request that shows the signal, in microseconds."""
    shown: dict[str, int] = {}
    for line in history.lines:
        for mark in line.marks:
            shown.setdefault(mark, line.at)
    acks = [*office.prompts.values(), *office.results.values()]
    return sorted(max(0, shown[ack.mark] - ack.at) for ack in acks)
