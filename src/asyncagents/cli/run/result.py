"""The result of a run: a value for `--format json`, an exit code, and closing lines."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from asyncagents.cli.exit import CANCELLED, FAILED, WAITING
from asyncagents.cli.terminal.screen import Screen, dollars, one_line, token_text
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.reply import utc_time
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import (
    APICause,
    APIError,
    ContextOverflowError,
    Failure,
    MessageAbortedError,
    describe_failure,
)
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage, sort_key
from asyncagents.domain.conversation.part import CompactionPart, Part, TextPart
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.notice import is_notice

RunStatus: TypeAlias = Literal["done", "failed", "waiting", "cancelled", "accepted", "stopped"]
NO_ANSWER = "there is no answer"


class OpenWait(Struct, frozen=True, kw_only=True):
    """A call that waits for a person or an outside result."""

    session: SessionId
    call: CallId
    ask: str | None
    """The id to answer; None: the call takes a result, under its own id."""
    tool: str
    kind: str
    what: str
    who: str = ""
    """Whom it asks, in words; may be empty."""
    due: int | None = None
    """The deadline in ms since the epoch."""
    choices: str = ""
    """How it may be answered."""


class RunResult(Struct, frozen=True, kw_only=True):
    """What `--format json` prints. `tokens` and `cost` are those of the whole turn."""

    session: SessionId
    message: MessageId | None = None
    text: str = ""
    finish: str | None = None
    error: Failure | None = None
    tokens: Tokens
    cost: float = 0
    status: RunStatus
    waits: tuple[OpenWait, ...] = ()
    summaries: int = 0
    """Number of summaries made in this turn."""


class RunLocation(Struct, frozen=True):
    """Where a run works: in this process, in the server of this data, or (`far`) in another server."""

    url: str = ""
    far: bool = False

    def resume_command(self, session_id: SessionId) -> str:
        """Return the command that continues a session there."""
        there = f" --attach {self.url}" if self.far else ""
        return f"asyncagents run{there} --session {session_id}"


LOCAL = RunLocation()


def build_result(
    session_id: SessionId,
    answer: MessageWithParts | None,
    steps: tuple[AssistantMessage, ...],
    waits: tuple[OpenWait, ...],
) -> RunResult:
    """Build the result; `steps` are those of the turn that the answer ended."""
    info = answer.info if answer is not None else None
    message = info if isinstance(info, AssistantMessage) else None
    error = message.error if message else None
    tokens = Tokens.zero()
    for step in steps:
        tokens = tokens.plus(step.tokens)
    return RunResult(
        session=session_id,
        message=message.id if message else None,
        text=answer.text if answer else "",
        finish=message.finish if message else None,
        error=error,
        tokens=tokens,
        cost=sum(step.cost for step in steps),
        status=_run_status(message, waiting=bool(waits)),
        waits=waits,
        summaries=sum(bool(step.summary) and step.error is None for step in steps),
    )


def steps_of_turn(
    entries: Sequence[MessageWithParts], answer: MessageWithParts | None, prompt_id: MessageId | None
) -> tuple[AssistantMessage, ...]:
    """Return the steps from a prompt (None: the last message of a person) to its answer, with summaries."""
    found: list[AssistantMessage] = []
    for entry in reversed(entries):
        if answer is None or sort_key(entry.info) > sort_key(answer.info):
            continue
        if isinstance(entry.info, AssistantMessage):
            found.append(entry.info)
        elif entry.info.id == prompt_id or (prompt_id is None and is_by_person(entry)):
            break
    return tuple(reversed(found))


def is_by_person(entry: MessageWithParts) -> bool:
    """Return whether a message has a part that the system did not add."""
    if not isinstance(entry.info, UserMessage) or any(_is_notice_part(part) for part in entry.parts):
        return False
    return any(not _is_system_part(part) for part in entry.parts)


def _is_notice_part(part: Part | UnknownPart) -> bool:
    """Return whether the part is a notice of ended tasks."""
    return isinstance(part, TextPart) and bool(part.synthetic) and is_notice(part.text)


def last_answer(entries: Sequence[MessageWithParts], first: MessageWithParts) -> MessageWithParts:
    """Return the last answer to a prompt: notices may have woken the session after its first answer."""
    last = first
    for entry in entries:
        if sort_key(entry.info) <= sort_key(first.info):
            continue
        if is_by_person(entry):
            break
        if isinstance(entry.info, AssistantMessage) and not entry.info.summary:
            last = entry
    return last


def newest_answer(entries: Sequence[MessageWithParts]) -> MessageWithParts | None:
    """Return the newest answer, or the newest summary if there is no other, which answers no prompt."""
    answers = [each for each in reversed(entries) if isinstance(each.info, AssistantMessage)]
    return next((each for each in answers if not _is_summary(each)), next(iter(answers), None))


def _is_summary(entry: MessageWithParts) -> bool:
    info = entry.info
    return isinstance(info, AssistantMessage) and bool(info.summary) and info.error is None


def _is_system_part(part: Part | UnknownPart) -> bool:
    match part:
        case TextPart(synthetic=synthetic):
            return bool(synthetic)
        case CompactionPart(auto=auto):
            return auto
        case _:
            return False


def _run_status(message: AssistantMessage | None, *, waiting: bool) -> RunStatus:
    if message is not None and isinstance(message.error, MessageAbortedError):
        return "cancelled"
    if message is not None and message.error is not None:
        return "failed"
    if waiting:
        return "waiting"
    return "done" if message is not None else "failed"


def exit_code(ending: RunStatus) -> int:
    match ending:
        case "done" | "accepted":
            return 0
        case "failed" | "stopped":
            return FAILED
        case "waiting":
            return WAITING
        case "cancelled":
            return CANCELLED
        case _:
            assert_never(ending)


def wait_of(open_call: OpenCall) -> OpenWait:
    return OpenWait(
        session=open_call.session_id,
        call=open_call.id,
        ask=open_call.ask_id,
        tool=open_call.tool,
        kind=open_call.kind,
        what=_wait_text(open_call),
        who=open_call.who,
        due=open_call.due,
        choices=_choices(open_call),
    )


def _choices(open_call: OpenCall) -> str:
    if open_call.permission is not None:
        return "once|always|reject"
    if open_call.approval and open_call.question is not None:
        return "|".join(option.label.lower() for option in open_call.question.questions[0].options)
    return "TEXT" if open_call.question is not None else ""


def _wait_text(open_call: OpenCall) -> str:
    tool, ask, question = open_call.tool, open_call.permission, open_call.question
    if ask is not None:
        return f"{tool} asks for the permission {ask.permission!r} ({', '.join(ask.patterns)})"
    if question is not None:
        whom = f" {open_call.who}" if open_call.who else ""
        return f"{tool} asks{whom}: {' / '.join(each.question for each in question.questions)}"
    note = f" ({open_call.note})" if open_call.note else ""
    return f"{tool} waits for its {'time' if open_call.kind == 'wait' else 'result'}{note}"


def open_call_text(call: Call) -> str:
    """Describe what an open call asks, and whom; empty if it has no note."""
    state = call.open
    assert state is not None, "a waiting call is open"
    whom = f"{state.who}: " if state.who else ""
    if state.ask is not None:
        return f"{whom}{state.ask.permission}: {', '.join(state.ask.patterns)}"
    if state.question is not None:
        return f"{whom}{' / '.join(each.question for each in state.question.questions)}"
    return state.note


def print_closing(screen: Screen, result: RunResult, location: RunLocation = LOCAL) -> None:
    """Print the closing lines to stderr; the answer is on stdout already."""
    again = location.resume_command(result.session)
    match result.status:
        case "done":
            _print_totals(screen, result, again)
        case "failed":
            screen.print_line(f"error: {failure_text(result.error)}")
            screen.print_line(f"hint: {_failure_hint(result.error, again)}")
        case "waiting":
            _print_waits(screen, result, location)
        case "cancelled":
            screen.print_line(f"cancelled: session {result.session}; `{again} PROMPT` continues it")
        case "stopped":
            screen.print_line(f"stopped: {_after_stop(location)}; `{again}` {_resume_effect(location)}")
        case "accepted" if location.url:
            screen.print_line(
                f"accepted: the server at {location.url} runs it; `{again}` {_resume_effect(location)}"
            )
        case "accepted":
            screen.print_line(f"accepted: no process runs it until `{again}` does")
        case _:
            assert_never(result.status)


def _failure_hint(failure: Failure | None, again: str) -> str:
    """Name the command that continues; with another model, where the same one would fail again."""
    other = f"`{again} --model PROVIDER/MODEL PROMPT`"
    match failure:
        case ContextOverflowError():
            return f"the session is stored; {other} continues it with a model that has a longer context"
        case APIError(data=APICause(status_code=HTTPStatus.NOT_FOUND)):
            return f"`asyncagents models` lists models; {other} continues with another"
        case _:
            return f"the session is stored; `{again} PROMPT` continues it"


def _after_stop(location: RunLocation) -> str:
    return f"the server at {location.url} continues" if location.url else "what was accepted is stored"


def _resume_effect(location: RunLocation) -> str:
    return "shows its progress" if location.url else "continues it"


def _print_waits(screen: Screen, result: RunResult, location: RunLocation) -> None:
    for wait in result.waits:
        until = f", until {utc_time(wait.due)}" if wait.due is not None and wait.kind != "wait" else ""
        named = wait.ask or wait.call
        screen.print_line(f"waiting: {one_line(wait.what)}, {named} of session {wait.session}{until}")
    for hint in (
        _remote_hints(result, location)
        if location.far
        else _local_hints(result, location.resume_command(result.session))
    ):
        screen.print_line(f"hint: {hint}")


def _local_hints(result: RunResult, again: str) -> Iterator[str]:
    """Yield hints for the first ask and the first pending call."""
    ask = next((wait for wait in result.waits if wait.ask is not None), None)
    outside = next((wait for wait in result.waits if wait.ask is None and wait.kind == "async"), None)
    if ask is not None:
        answer = f"`asyncagents answer {ask.ask} {ask.choices}` answers and continues"
        yield f"{answer}; once it is answered, `{again}` continues, too"
    if outside is not None:
        yield f"`asyncagents submit {outside.call} RESULT` submits it; `asyncagents pending` lists all"
    if ask is None:
        when = "once the result is in" if outside is not None else "then"
        yield f"{when}, `{again}` continues; prompts are answered meanwhile"


def _remote_hints(result: RunResult, location: RunLocation) -> Iterator[str]:
    """Yield hints for a foreign server: its data takes answers only through the server."""
    again = location.resume_command(result.session)
    if any(wait.ask is not None for wait in result.waits):
        yield f"`{again}` at a terminal asks for the answer"
    else:
        yield f"`{again}` shows its progress once the result is in"


def _print_totals(screen: Screen, result: RunResult, again: str) -> None:
    if result.finish == "length":
        screen.print_line("warning: the model reached its output limit; the answer is incomplete")
    if result.finish == "max-steps":
        screen.print_line(
            f"warning: the agent reached its limit of steps in one turn; `{again} PROMPT` continues"
        )
    if screen.stderr_is_terminal:
        screen.note(f"session {result.session}, {token_text(result.tokens)} tokens, {dollars(result.cost)}")


def failure_text(failure: Failure | None) -> str:
    """Return the message of a failure, or its name if it has none."""
    if failure is None:
        return NO_ANSWER
    return one_line(describe_failure(failure)[1], 1000)


def as_json(result: RunResult) -> str:
    return encode(result).decode()
