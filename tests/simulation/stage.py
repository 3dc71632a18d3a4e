"""What stands outside the simulated processes: a record of all that was promised and all that was done."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct

from asyncagents.domain.call import Reply, Result
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.llm.model import FromModel, FromTool, FromUser, Told
from tests.simulation.mirror import Mirror

MOST_REQUESTS = 250
_NAME = re.compile(r"\b(s\d+|ses_\w+):")


class Violation(AssertionError):
    """A promise was broken."""


class Effect(Struct, frozen=True):
    """A tool touched the world."""

    call_id: CallId
    session_id: SessionId
    tool: str
    process: int
    at: float


class Stage:
    """Survives every crash, as the outside world does."""

    def __init__(self) -> None:
        self.sessions: list[SessionId] = []
        self.prompts: dict[MessageId, str] = {}
        self.answers: dict[MessageId, MessageId] = {}
        self.results: dict[CallId, Result] = {}
        self.replies: dict[str, Reply] = {}
        self.aborted: dict[SessionId, list[tuple[int, int]]] = {}
        """When an abort was asked for, and when it was acknowledged, in ms."""
        self.effects: list[Effect] = []
        self.jobs: list[CallId] = []
        self.requests: dict[str, tuple[Told, ...]] = {}
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

    def violate(self, what: str) -> NoReturn:
        """Kept as well as raised: whoever plays a provider or a tool is not listened to."""
        self.broken.append(what)
        raise Violation(what)

    def check_unbroken(self) -> None:
        if self.broken:
            raise Violation(self.broken[0])

    def asked(self, messages: Sequence[Told], *, summary: bool = False) -> int:
        """A model request goes out: it answers every call, and extends the one before it.

        After a summary it may begin anew, once. Returns how many went out before it, of all sessions.
        """
        self.count("requests")
        if self.counts["requests"] > MOST_REQUESTS:
            self.violate(f"overspent: more than {MOST_REQUESTS} model requests")
        session = session_of(messages) or self.violate("a request without any prompt")
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
        return f"s{self.sessions.index(session_id)}"

    def enter(self, session: str, process: int) -> None:
        """A process works on a session; nobody else may."""
        busy = self.working.setdefault(session, [])
        if process in self.suspects:
            return
        if any(other != process and other not in self.suspects for other in busy):
            self.violate(f"I5: processes {busy} and {process} work on {session} at the same time")
        busy.append(process)

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


def session_of(messages: Sequence[Told]) -> str:
    """Prompts, and summaries of them, have the name of their session."""
    for told in messages:
        if isinstance(told, FromUser) and (name := _NAME.search(told.text)):
            return name[1]
    return ""


def unanswered(messages: Sequence[Told]) -> str:
    """Every call has exactly one result, right behind the step that made it."""
    due: list[str] = []
    seen: set[str] = set()
    for told in messages:
        if isinstance(told, FromTool):
            if not due or due.pop(0) != told.call_id:
                return f"a result for {told.call_id} that nobody waits for"
            continue
        if due:
            break
        if isinstance(told, FromModel):
            due = [made.id for made in told.calls]
            if seen & set(due):
                return f"call ids {due} stand twice"
            seen |= set(due)
    return f"calls {due} have no result" if due else ""


def _difference(before: Sequence[Told], now: Sequence[Told]) -> str:
    for place, old in enumerate(before):
        new = now[place] if place < len(now) else None
        if old != new:
            return f"at {place}: {old} became {new}"
    return "nothing"
