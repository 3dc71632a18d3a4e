"""State of a pending call: its deadline, warning, question and metadata."""

import math

from msgspec import UNSET

from asyncagents.config.config import AsyncToolsConfig
from asyncagents.domain.call.ask import Question, QuestionRequest, ToolRef
from asyncagents.domain.call.call import (
    TIMED_OUT,
    UNSURE,
    WAIT_OVER,
    Call,
    Completed,
    Failed,
    Later,
    Open,
    Result,
)
from asyncagents.domain.call.reply import CHOICES, unanswered
from asyncagents.domain.fact import Fact, KeepSecret
from asyncagents.domain.id import Ids
from asyncagents.domain.text import shortened
from asyncagents.engine.tool import AnyTool, Lasting, Pending

WARN_SHARE = 10
WARN_MOST_MS = 3_600_000
WARN_LEAST_MS = 1_000
"""A shorter warning would leave no time to react."""
HEADER = "Approval"
FAR = 2**53
"""The latest deadline that is stored."""


class Lastings:
    """Builds the states of pending calls; pure but for the ids of questions."""

    def __init__(self, config: AsyncToolsConfig, ids: Ids) -> None:
        self._config = config
        self._ids = ids

    def begun(self, tool: AnyTool, now: int) -> Later | None:
        """Return the state stored when an async tool starts: its work may begin before it returns."""
        if tool.lasting is None:
            return None
        due = _due(self._seconds(Pending(), tool.lasting), now)
        estimated = _ms(tool.lasting.estimated_seconds)
        return Later(due=due, estimated=estimated, checked=tool.lasting.validate is not None)

    def opened(self, call: Call, pending: Pending, tool: AnyTool, now: int) -> Open:
        due = pending.due or _due(self._seconds(pending, tool.lasting), now)
        outside = pending.kind == "async" or (pending.kind == "wait" and pending.watch is None)
        return Open(
            kind=pending.kind,
            since=now,
            due=due,
            warn=_warn(due, now) if pending.kind == "async" else None,
            on_due=pending.on_due or _on_due(pending, due),
            note=pending.note,
            question=self._question(call, pending),
            who=pending.who,
            approval=pending.approval,
            blocks=pending.kind != "async",
            watch=pending.watch,
            title=pending.title,
            metadata=pending.metadata,
            later=_later(pending, tool.lasting, due) if outside else None,
        )

    def _seconds(self, pending: Pending, lasting: Lasting | None) -> float | None:
        """Return the wait of the call, else of its tool, else of the config; an estimate only extends it."""
        for said in (pending.seconds, lasting.seconds if lasting else UNSET):
            if said is not UNSET:
                return said
        estimated, usual = _estimated(pending, lasting) or 0, self._config.seconds
        return 2 * estimated if estimated > usual else usual

    def _question(self, call: Call, pending: Pending) -> QuestionRequest | None:
        if not pending.questions:
            return None
        return QuestionRequest(
            id=self._ids.question(),
            session_id=call.session_id,
            questions=pending.questions,
            tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
        )

    def reopened(self, call: Call, later: Later, tool: AnyTool | None, now: int) -> Open:
        """Open a call whose process died while its tool started its work: a result may still come.

        The question it would have asked is unknown; an approval asks its default question.
        """
        left = Pending(note=UNSURE)
        if tool is not None and tool.lasting is not None and tool.lasting.approval:
            left = asked_for(call, tool.lasting, note=UNSURE)
        return Open(
            kind="async",
            since=now,
            due=later.due,
            warn=_warn(later.due, now),
            on_due=_on_due(left, later.due),
            note=left.note,
            question=self._question(call, left),
            who=left.who,
            approval=left.approval,
            blocks=False,
        )


def asked_for(call: Call, lasting: Lasting, *, note: str = "") -> Pending:
    """Build the default question of an approval."""
    given = ", ".join(f"{name}={value}" for name, value in call.input.items())
    text = f"May this be done? {call.tool}({shortened(given, 500)})"
    question = Question(question=text, header=HEADER, options=CHOICES, custom=False)
    return Pending(note=note, questions=(question,), who=lasting.who, approval=True)


def _on_due(pending: Pending, due: int | None) -> Result:
    if pending.kind == "wait":
        return Completed(WAIT_OVER)
    if pending.questions:
        return unanswered(due, pending.who, approval=pending.approval)
    return Failed(TIMED_OUT)


def secrets(call: Call, pending: Pending) -> tuple[Fact, ...]:
    """Return the facts that store a pending call's secrets."""
    facts: list[Fact] = []
    if pending.secret is not None:
        facts.append(KeepSecret(call.session_id, call.id, "in", pending.secret.reveal()))
    if pending.webhook_secret is not None:
        facts.append(KeepSecret(call.session_id, call.id, "out", pending.webhook_secret.reveal()))
    return tuple(facts)


def _later(pending: Pending, lasting: Lasting | None, due: int | None) -> Later:
    return Later(
        due=due,
        estimated=_ms(_estimated(pending, lasting)),
        external_ref=pending.external_ref,
        webhook_url=pending.webhook_url,
        checked=lasting is not None and lasting.validate is not None,
    )


def _estimated(pending: Pending, lasting: Lasting | None) -> float | None:
    return pending.estimated_seconds or (lasting.estimated_seconds if lasting else None)


def _due(seconds: float | None, now: int) -> int | None:
    length = _ms(seconds)
    return None if length is None else min(now + length, FAR)


def _ms(seconds: float | None) -> int | None:
    """Convert seconds to milliseconds, within what can be stored; None: no limit."""
    if seconds is None or not math.isfinite(seconds):
        return None
    return int(max(-FAR, min(seconds * 1000, FAR)))


def _warn(due: int | None, now: int) -> int | None:
    """Return when to warn: a tenth of the time before the deadline, at most an hour; None: too short."""
    if due is None:
        return None
    before = min((due - now) // WARN_SHARE, WARN_MOST_MS)
    return due - before if before >= WARN_LEAST_MS else None
