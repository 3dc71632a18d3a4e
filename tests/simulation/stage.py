"""What stands outside the simulated processes: a record of all that was promised and all that was done."""

import asyncio
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from asyncagents.domain.call.call import Reply, Result
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.errors import NotFound
from asyncagents.llm.model import ModelTurn, RequestMessage, ToolTurn, UserTurn
from tests.simulation.mirror import Mirror
from tests.simulation.rows import Known, Rows

MOST_REQUESTS = 250
FORKED = "\nSystem: You are a fork. "
"""With this begins what a fork is told between the copies and its own prompt."""
_NAME = re.compile(r"\b(s\d+|ses_\w+):")
_IN_A_TREE = re.compile(r'(?<![\w"])(s\d+|t\d+x\d+):')
"""Prompts of launches are quoted: they are not its own."""


class Violation(AssertionError):
    """A promise was broken."""


class Effect(Struct, frozen=True):
    """A tool touched the world."""

    call_id: CallId
    session_id: SessionId
    tool: str
    process: int
    at: float


class Asked(Struct, frozen=True):
    """A model was asked for a session of a tree."""

    session_id: SessionId
    process: int
    at: float


class Ended(Struct, frozen=True):
    """A cancel of a session and all below it that was acknowledged, in ms."""

    session_id: SessionId
    asked: int
    acknowledged: int


class Stage:
    """Survives every crash, as the outside world does. `rows`: sessions launch sessions."""

    def __init__(self, rows: Rows | None = None, *, crowd: int = 0) -> None:
        self.rows = rows
        self.crowd = crowd
        """How many sessions below one root may work at once."""
        self.most_requests = MOST_REQUESTS if rows is None else 4 * MOST_REQUESTS
        self.forgets = False
        """Whether calls that were settled long ago are dropped."""
        self.launched = 0
        """How many children the model has wished for."""
        self.asks: list[Asked] = []
        self.ended: list[Ended] = []
        self.follow_ups: dict[str, SessionId] = {}
        """What was acknowledged as a follow-up to a task."""
        self.deleted: set[SessionId] = set()
        """Sessions that somebody wished to be deleted, with all below them."""
        self.dead: Callable[[int], bool] = lambda process: False
        self.sessions: list[SessionId] = []
        self.prompts: dict[MessageId, str] = {}
        self.answers: dict[MessageId, MessageId] = {}
        self.results: dict[CallId, Result] = {}
        self.replies: dict[str, Reply] = {}
        self.aborted: dict[SessionId, list[tuple[int, int]]] = {}
        """When an abort was asked for, and when it was acknowledged, in ms."""
        self.effects: list[Effect] = []
        self.jobs: list[CallId] = []
        self.requests: dict[str, tuple[RequestMessage, ...]] = {}
        self.summarised: set[str] = set()
        """Sessions for which a summary was written that no request has begun with yet."""
        self.working: dict[str, list[int]] = {}
        self.suspects: set[int] = set()
        """Processes that live but were declared dead: they may still be at work, and must not be heeded."""
        self.mirrors: list[Mirror] = []
        self.counts: dict[str, int] = {}
        self.broken: list[str] = []

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def broke(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback or a forgotten task failed: that is a bug, wherever it is."""
        self.broken.append(repr(context.get("exception") or context["message"]))

    def reach_edge(self, edge: str, fault: BaseException) -> None:
        """Keep an exception that a process swallowed, and that nobody raised on purpose: it is a bug."""
        where = traceback.extract_tb(fault.__traceback__)
        last = f" ({where[-1].filename.rpartition('/')[2]}:{where[-1].lineno})" if where else ""
        self.broken.append(f"X-11: {fault!r} reached the edge of a {edge}{last}")

    def violate(self, what: str) -> NoReturn:
        """Kept as well as raised: whoever plays a provider or a tool is not listened to."""
        self.broken.append(what)
        raise Violation(what)

    def check_unbroken(self) -> None:
        if self.broken:
            raise Violation(self.broken[0])

    def asked(self, session: str, messages: Sequence[RequestMessage], *, summary: bool = False) -> int:
        """A model request goes out: it answers every call, and extends the one before it.

        After a summary it may begin anew, once. Returns how many went out before it, of all sessions.
        """
        self.count("requests")
        if self.counts["requests"] > self.most_requests:
            self.violate(f"overspent: more than {self.most_requests} model requests")
        if not session:
            self.violate("a request without any prompt")
        if summary:
            return self.counts["requests"]
        before = self.requests.get(session, ())
        now = tuple(messages)
        if now[: len(before)] != before:
            if session not in self.summarised:
                self.violate(f"I12: what was sent has changed: {_difference(before, now)}")
            self.summarised.remove(session)
            self.count("summaries")
        self.requests[session] = now
        if wrong := unanswered(now):
            self.violate(f"I12: {wrong}")
        return self.counts["requests"]

    def name(self, session_id: SessionId) -> str:
        if session_id in self.sessions:
            return f"s{self.sessions.index(session_id)}"
        child = self.rows.child(session_id) if self.rows else None
        if child is None:
            raise NotFound("session", session_id)
        return child.name

    def session_of(self, messages: Sequence[RequestMessage]) -> str:
        """Of a fork, too: it begins with what its parent was told, so the last name counts."""
        if self.rows is None:
            return session_of(messages)
        names = _IN_A_TREE.findall(_said(messages))
        return names[-1] if names else ""

    def summarised_by(self, messages: Sequence[RequestMessage], process: int) -> str:
        """A summary is asked for with all that was said and done, launches of others included."""
        if self.rows is None:
            return session_of(messages)
        text = _said(messages)
        names = _IN_A_TREE.findall(text[max(0, text.rfind(FORKED)) :]) + _IN_A_TREE.findall(text)
        wanted = {self.name(SessionId(each)) for each in self.rows.summarised(f"owner{process}")}
        named = next((name for name in names if name in wanted), "")
        return named or (wanted.pop() if len(wanted) == 1 else "")

    def known(self, name: str) -> Known | None:
        """Where a session stands in its tree; None: it is gone."""
        if self.rows is None or not name.startswith("s"):
            return self.rows.named(name) if self.rows else None
        session_id = self.sessions[int(name[1:])]
        return Known(session_id, name, session_id, 0)

    def enter(self, session: str, process: int) -> None:
        """A process works on a session; nobody else may."""
        busy = self.working.setdefault(session, [])
        if process in self.suspects:
            return
        if any(other != process and other not in self.suspects for other in busy):
            self.violate(f"I5: processes {busy} and {process} work on {session} at the same time")
        busy.append(process)
        if self.crowd:
            self._check_crowd(session)

    def ask(self, session: str, process: int) -> None:
        known = self.known(session)
        if known is not None:
            self.asks.append(Asked(known.id, process, asyncio.get_running_loop().time()))

    def _check_crowd(self, session: str) -> None:
        """D-10: below one root no more work at once than may."""
        place = self.known(session)
        if place is None or not place.depth or self.rows is None:
            return
        at_work = [name for name, busy in self.working.items() if any(map(self._counts, busy))]
        found = [known for name in at_work if (known := self.known(name)) and known.depth]
        ids = self.rows.there(known.id for known in found if known.root_id == place.root_id)
        self.counts["at once"] = max(self.counts.get("at once", 0), len(ids))
        if len(ids) > self.crowd:
            self.violate(f"D-10: {len(ids)} sessions of a tree work at once, not {self.crowd}")

    def _counts(self, process: int) -> bool:
        return process not in self.suspects and not self.dead(process)

    def leave(self, session: str, process: int) -> None:
        if process in self.working.get(session, []):
            self.working[session].remove(process)

    def died(self, process: int) -> None:
        for busy in self.working.values():
            busy[:] = [each for each in busy if each != process]

    def acknowledged_result(self, call_id: CallId, result: Result) -> None:
        first = self.results.setdefault(call_id, result)
        if first != result:
            self.violate(f"I7: {call_id} took two results: {first} and {result}")


def _said(messages: Sequence[RequestMessage]) -> str:
    return "\n".join(told.text for told in messages if isinstance(told, UserTurn))


def session_of(messages: Sequence[RequestMessage]) -> str:
    """Prompts, and summaries of them, have the name of their session."""
    for told in messages:
        if isinstance(told, UserTurn) and (name := _NAME.search(told.text)):
            return name[1]
    return ""


def unanswered(messages: Sequence[RequestMessage]) -> str:
    """Every call has exactly one result, right behind the step that made it."""
    due: list[str] = []
    seen: set[str] = set()
    for told in messages:
        if isinstance(told, ToolTurn):
            if not due or due.pop(0) != told.call_id:
                return f"a result for {told.call_id} that nobody waits for"
            continue
        if due:
            break
        if isinstance(told, ModelTurn):
            due = [made.id for made in told.calls]
            if seen & set(due):
                return f"call ids {due} stand twice"
            seen |= set(due)
    return f"calls {due} have no result" if due else ""


def _difference(before: Sequence[RequestMessage], now: Sequence[RequestMessage]) -> str:
    for place, old in enumerate(before):
        new = now[place] if place < len(now) else None
        if old != new:
            return f"at {place}: {old} became {new}"
    return "nothing"
