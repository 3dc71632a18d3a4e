"""Replies to asks and questions, and the results that the model reads of them."""

from datetime import UTC, datetime
from typing import assert_never

from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import (
    REJECTED,
    TIMED_OUT,
    Always,
    Answers,
    Completed,
    Failed,
    Once,
    Open,
    Reject,
    Reply,
    Result,
)
from asyncagents.domain.envelope import one_line
from asyncagents.domain.task.summary import duration
from asyncagents.errors import InvalidInput

APPROVE = "Approve"
REJECT = "Reject"
DECISION_OPTIONS = (
    Option(label=APPROVE, description="It may be done."),
    Option(label=REJECT, description="It may not be done."),
)
_DECISION_WORDS = {APPROVE: "Approved", REJECT: "Rejected"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The range that `datetime` can express, in seconds."""
LATE_MS = 60_000
"""An expiry that is less late than this is not noted."""


def utc_time(ms: int) -> str:
    """Format a time for people and models."""
    seconds = max(_FIRST_SECOND, min(ms // 1000, _LAST_SECOND))
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def overdue_note(ms: int) -> str:
    """Return the note of a deadline that passed while no process was running."""
    return f"It had been over for {duration(ms)} when somebody was there to say so."


def unanswered_result(due: int | None, who: str, *, approval: bool) -> Failed:
    """Return the result of a question that expired."""
    asked = f" ({one_line(who)})" if who else ""
    until = f" until {utc_time(due)}" if due is not None else ""
    so = ", so it is not approved" if approval else ""
    return Failed(f"{TIMED_OUT}: nobody{asked} answered{until}{so}.")


def reply_result(state: Open, reply: Reject | Answers, by: str = "") -> Result:
    """Return the result of a reply to an open ask or question. Raises `InvalidInput` for invalid answers."""
    named = {"answeredBy": by} if by else {}
    match reply:
        case Reject(message) if state.approval:
            return _decision_result(REJECT, (message,) if message else (), by)
        case Reject(""):
            return Failed(REJECTED, metadata=named, blocks=state.blocks)
        case Reject(message):
            return Failed(f"{REJECTED} They said: {message}", metadata=named)
        case Answers(answers):
            given = _check_answers(state, answers)
            if state.approval:
                return _read_decision(given[0], answers[0], by)
            lines = [
                f"{asked.question}\n{', '.join(answer) or '(no answer)'}"
                for asked, answer in zip(given, answers, strict=True)
            ]
            return Completed("\n\n".join(lines), metadata={"answers": [list(a) for a in answers], **named})


def _check_answers(state: Open, answers: tuple[tuple[str, ...], ...]) -> tuple[Question, ...]:
    if state.question is None:
        raise InvalidInput("this ask takes once, always or reject, not answers")
    questions = state.question.questions
    if len(answers) != len(questions):
        raise InvalidInput(f"expected {len(questions)} answers, got {len(answers)}")
    return questions


def _read_decision(asked: Question, answer: tuple[str, ...], by: str) -> Result:
    """Read a decision: one of the options, then remarks."""
    choice = answer[0].strip() if answer else ""
    labels = [option.label for option in asked.options]
    label = choice if choice in labels else next((each for each in labels if _same_label(each, choice)), None)
    if label is None:
        raise InvalidInput(f"this call needs a decision: {' or '.join(labels)}")
    return _decision_result(label, tuple(word for word in answer[1:] if word.strip()), by)


def _same_label(label: str, choice: str) -> bool:
    return label.casefold() == choice.casefold()


def _decision_result(label: str, remarks: tuple[str, ...], by: str) -> Completed:
    decided = _DECISION_WORDS.get(label, f"Answered {label!r}")
    title = f"{decided} by {one_line(by)}" if by else decided
    remark = " ".join(remarks)
    metadata: dict[str, object] = {"decision": label}
    if label in _DECISION_WORDS:
        metadata["approved"] = label == APPROVE
    metadata |= {"comment": remark} if remark else {}
    metadata |= {"answeredBy": by} if by else {}
    return Completed(f"{title}: {remark}" if remark else f"{title}.", title=title, metadata=metadata)


def describe_reply(reply: Reply) -> str:
    """Describe a reply in a few words, for the conflict message of a second reply."""
    match reply:
        case Once():
            return "once"
        case Always():
            return "always"
        case Reject(message):
            return f"reject ({one_line(message)})" if message else "reject"
        case Answers(answers):
            return one_line(" / ".join(", ".join(each) for each in answers))
        case _:
            assert_never(reply)
