"""State of a pending call: its deadline, warning, question and metadata."""

import math

from msgspec import UNSET

from asyncagents.config.config import AsyncToolsConfig
from asyncagents.domain.call.ask import Question, QuestionRequest, ToolRef
from asyncagents.domain.call.call import (
    START_UNSURE,
    TIMED_OUT,
    WAIT_OVER,
    AsyncState,
    Call,
    Completed,
    Failed,
    Open,
    Result,
)
from asyncagents.domain.call.reply import DECISION_OPTIONS, unanswered_result
from asyncagents.domain.fact import Fact, KeepSecret
from asyncagents.domain.id import Ids
from asyncagents.domain.text import shorten_middle
from asyncagents.engine.tool import AnyTool, AsyncSpec, Pending, PendingAtServer

WARN_SHARE = 10
MAX_WARN_MS = 3_600_000
MIN_WARN_MS = 1_000
"""A shorter warning would leave no time to react."""
QUESTION_HEADER = "Approval"
MAX_TIME_MS = 2**53
"""The latest deadline that is stored."""


class PendingPolicy:
    """Builds the states of pending calls; pure but for the ids of questions."""

    def __init__(self, config: AsyncToolsConfig, ids: Ids) -> None:
        self._config = config
        self._ids = ids

    def start_state(self, tool: AnyTool, now: int) -> AsyncState | None:
        """Return the state stored when an async tool starts: its work may begin before it returns."""
        if tool.async_spec is None:
            return None
        due = _due_at(self._wait_seconds(Pending(), tool.async_spec), now)
        estimated = _ms(tool.async_spec.estimated_seconds)
        return AsyncState(due=due, estimated=estimated, checked=tool.async_spec.validate is not None)

    def open_state(self, call: Call, pending: Pending, tool: AnyTool, now: int) -> Open:
        due = pending.due or _due_at(self._wait_seconds(pending, tool.async_spec), now)
        outside = pending.kind == "async" or (pending.kind == "wait" and pending.watch is None)
        return Open(
            kind=pending.kind,
            since=now,
            due=due,
            warn=_warn_at(due, now) if pending.kind == "async" else None,
            on_due=pending.on_due or _result_on_due(pending, due),
            note=pending.note,
            question=self._build_question(call, pending),
            who=pending.who,
            approval=pending.approval,
            blocks=pending.kind != "async",
            watch=pending.watch,
            title=pending.title,
            metadata=pending.metadata,
            later=_async_state(pending, tool.async_spec, due) if outside else None,
        )

    def _wait_seconds(self, pending: Pending, spec: AsyncSpec | None) -> float | None:
        """Return the wait of the call, else of its tool, else of the config; an estimate only extends it."""
        for seconds in (pending.seconds, spec.seconds if spec else UNSET):
            if seconds is not UNSET:
                return seconds
        estimated, usual = _estimated_seconds(pending, spec) or 0, self._config.seconds
        return 2 * estimated if estimated > usual else usual

    def _build_question(self, call: Call, pending: Pending) -> QuestionRequest | None:
        if not pending.questions:
            return None
        return QuestionRequest(
            id=self._ids.question(),
            session_id=call.session_id,
            questions=pending.questions,
            tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
        )

    def reopen_state(self, call: Call, state: AsyncState, tool: AnyTool | None, now: int) -> Open:
        """Open a call whose process died while its tool started its work: a result may still come.

        The question it would have asked is unknown; an approval asks its default question.
        """
        left = Pending(note=START_UNSURE)
        if tool is not None and tool.async_spec is not None and tool.async_spec.approval:
            left = approval_pending(call, tool.async_spec, note=START_UNSURE)
        return Open(
            kind="async",
            since=now,
            due=state.due,
            warn=_warn_at(state.due, now),
            on_due=_result_on_due(left, state.due),
            note=left.note,
            question=self._build_question(call, left),
            who=left.who,
            approval=left.approval,
            blocks=False,
        )


def approval_pending(call: Call, spec: AsyncSpec, *, note: str = "") -> Pending:
    """Build the default question of an approval."""
    given = ", ".join(f"{name}={value}" for name, value in call.input.items())
    text = f"May this be done? {call.tool}({shorten_middle(given, 500)})"
    question = Question(question=text, header=QUESTION_HEADER, options=DECISION_OPTIONS, custom=False)
    return Pending(note=note, questions=(question,), who=spec.who, approval=True)


def _result_on_due(pending: Pending, due: int | None) -> Result:
    if pending.kind == "wait":
        return Completed(WAIT_OVER)
    if pending.questions:
        return unanswered_result(due, pending.who, approval=pending.approval)
    return Failed(TIMED_OUT)


def secret_facts(call: Call, pending: Pending) -> tuple[Fact, ...]:
    """Return the facts that store a pending call's secrets."""
    facts: list[Fact] = []
    if pending.secret is not None:
        facts.append(KeepSecret(call.session_id, call.id, "in", pending.secret.reveal()))
    if pending.webhook_secret is not None:
        facts.append(KeepSecret(call.session_id, call.id, "out", pending.webhook_secret.reveal()))
    return tuple(facts)


def _async_state(pending: Pending, spec: AsyncSpec | None, due: int | None) -> AsyncState:
    return AsyncState(
        due=due,
        estimated=_ms(_estimated_seconds(pending, spec)),
        external_ref=pending.external_ref,
        webhook_url=pending.webhook_url,
        checked=spec is not None and spec.validate is not None,
        server_task=pending.server_task if isinstance(pending, PendingAtServer) else None,
    )


def _estimated_seconds(pending: Pending, spec: AsyncSpec | None) -> float | None:
    return pending.estimated_seconds or (spec.estimated_seconds if spec else None)


def _due_at(seconds: float | None, now: int) -> int | None:
    length = _ms(seconds)
    return None if length is None else min(now + length, MAX_TIME_MS)


def _ms(seconds: float | None) -> int | None:
    """Convert seconds to milliseconds, within what can be stored; None: no limit."""
    if seconds is None or not math.isfinite(seconds):
        return None
    return int(max(-MAX_TIME_MS, min(seconds * 1000, MAX_TIME_MS)))


def _warn_at(due: int | None, now: int) -> int | None:
    """Return when to warn: a tenth of the time before the deadline, at most an hour; None: too short."""
    if due is None:
        return None
    before = min((due - now) // WARN_SHARE, MAX_WARN_MS)
    return due - before if before >= MIN_WARN_MS else None
