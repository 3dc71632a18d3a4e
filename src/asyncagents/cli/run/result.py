"""The result of a run: a value for `--format json`, an exit code, and closing lines."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from asyncagents.cli.exit import CANCELLED, FAILED, WAITING
from asyncagents.cli.terminal.screen import Screen, amount, dollars, one_line
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.reply import moment
from asyncagents.domain.call.waiting import Awaited
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.failure import Failure, MessageAbortedError, told
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage, sort_key
from asyncagents.domain.conversation.part import CompactionPart, Part, TextPart
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.notice import is_notice

Ending: TypeAlias = Literal["done", "failed", "waiting", "cancelled", "accepted", "stopped"]
NO_ANSWER = "there is no answer"


class Wait(Struct, frozen=True, kw_only=True):
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


class Result(Struct, frozen=True, kw_only=True):
    """What `--format json` prints. `tokens` and `cost` are those of the whole turn."""

    session: SessionId
    message: MessageId | None = None
    text: str = ""
    finish: str | None = None
    error: Failure | None = None
    tokens: Tokens
    cost: float = 0
    status: Ending
    waits: tuple[Wait, ...] = ()
    summaries: int = 0
    """Number of summaries made in this turn."""


class Where(Struct, frozen=True):
    """Where a run works: in this process, in the server of this data, or (`far`) in another server."""

    url: str = ""
    far: bool = False

    def again(self, session_id: SessionId) -> str:
        """Return the command that continues a session there."""
        there = f" --attach {self.url}" if self.far else ""
        return f"asyncagents run{there} --session {session_id}"


HERE = Where()


def judged(
    session_id: SessionId, answer: Entry | None, steps: tuple[AssistantMessage, ...], waits: tuple[Wait, ...]
) -> Result:
    """Build the result; `steps` are those of the turn that the answer ended."""
    info = answer.info if answer is not None else None
    said = info if isinstance(info, AssistantMessage) else None
    error = said.error if said else None
    tokens = Tokens.zero()
    for step in steps:
        tokens = tokens.plus(step.tokens)
    return Result(
        session=session_id,
        message=said.id if said else None,
        text=answer.text if answer else "",
        finish=said.finish if said else None,
        error=error,
        tokens=tokens,
        cost=sum(step.cost for step in steps),
        status=_ending(said, waiting=bool(waits)),
        waits=waits,
        summaries=sum(bool(step.summary) and step.error is None for step in steps),
    )


def steps_of_turn(
    entries: Sequence[Entry], answer: Entry | None, prompt_id: MessageId | None
) -> tuple[AssistantMessage, ...]:
    """Return the steps from a prompt (None: the last message of a person) to its answer, with summaries."""
    found: list[AssistantMessage] = []
    for entry in reversed(entries):
        if answer is None or sort_key(entry.info) > sort_key(answer.info):
            continue
        if isinstance(entry.info, AssistantMessage):
            found.append(entry.info)
        elif entry.info.id == prompt_id or (prompt_id is None and by_person(entry)):
            break
    return tuple(reversed(found))


def by_person(entry: Entry) -> bool:
    """Return whether a message has a part that the system did not add."""
    if not isinstance(entry.info, UserMessage) or any(_tells(part) for part in entry.parts):
        return False
    return any(not _put_in(part) for part in entry.parts)


def _tells(part: Part | UnknownPart) -> bool:
    """Return whether the part is a notice of ended tasks."""
    return isinstance(part, TextPart) and bool(part.synthetic) and is_notice(part.text)


def last_answer(entries: Sequence[Entry], first: Entry) -> Entry:
    """Return the last answer to a prompt: notices may have woken the session after its first answer."""
    last = first
    for entry in entries:
        if sort_key(entry.info) <= sort_key(first.info):
            continue
        if by_person(entry):
            break
        if isinstance(entry.info, AssistantMessage) and not entry.info.summary:
            last = entry
    return last


def _put_in(part: Part | UnknownPart) -> bool:
    match part:
        case TextPart(synthetic=synthetic):
            return bool(synthetic)
        case CompactionPart(auto=auto):
            return auto
        case _:
            return False


def _ending(said: AssistantMessage | None, *, waiting: bool) -> Ending:
    if said is not None and isinstance(said.error, MessageAbortedError):
        return "cancelled"
    if said is not None and said.error is not None:
        return "failed"
    if waiting:
        return "waiting"
    return "done" if said is not None else "failed"


def exit_code(ending: Ending) -> int:
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


def wait_of(waiting: Awaited) -> Wait:
    return Wait(
        session=waiting.session_id,
        call=waiting.id,
        ask=waiting.ask_id,
        tool=waiting.tool,
        kind=waiting.kind,
        what=_what(waiting),
        who=waiting.who,
        due=waiting.due,
        choices=_choices(waiting),
    )


def _choices(waiting: Awaited) -> str:
    if waiting.permission is not None:
        return "once|always|reject"
    if waiting.approval and waiting.question is not None:
        return "|".join(option.label.lower() for option in waiting.question.questions[0].options)
    return "TEXT" if waiting.question is not None else ""


def _what(waiting: Awaited) -> str:
    tool, ask, question = waiting.tool, waiting.permission, waiting.question
    if ask is not None:
        return f"{tool} asks for the permission {ask.permission!r} ({', '.join(ask.patterns)})"
    if question is not None:
        whom = f" {waiting.who}" if waiting.who else ""
        return f"{tool} asks{whom}: {' / '.join(each.question for each in question.questions)}"
    note = f" ({waiting.note})" if waiting.note else ""
    return f"{tool} waits for its {'time' if waiting.kind == 'wait' else 'result'}{note}"


def what_of(call: Call) -> str:
    """Describe what an open call asks, and whom; empty if it has no note."""
    state = call.open
    assert state is not None, "a waiting call is open"
    whom = f"{state.who}: " if state.who else ""
    if state.ask is not None:
        return f"{whom}{state.ask.permission}: {', '.join(state.ask.patterns)}"
    if state.question is not None:
        return f"{whom}{' / '.join(each.question for each in state.question.questions)}"
    return state.note


def close(screen: Screen, result: Result, where: Where = HERE) -> None:
    """Print the closing lines to stderr; the answer is on stdout already."""
    again = where.again(result.session)
    match result.status:
        case "done":
            _sum_up(screen, result, again)
        case "failed":
            screen.tell(f"error: {failure_text(result.error)}")
            screen.tell(f"hint: the session is stored; `{again} PROMPT` continues it")
        case "waiting":
            _tell_waits(screen, result, where)
        case "cancelled":
            screen.tell(f"cancelled: session {result.session}; `{again} PROMPT` continues it")
        case "stopped":
            screen.tell(f"stopped: {_after_stop(where)}; `{again}` {_comes_back(where)}")
        case "accepted" if where.url:
            screen.tell(f"accepted: the server at {where.url} runs it; `{again}` {_comes_back(where)}")
        case "accepted":
            screen.tell(f"accepted: no process runs it until `{again}` does")
        case _:
            assert_never(result.status)


def _after_stop(where: Where) -> str:
    return f"the server at {where.url} continues" if where.url else "what was accepted is stored"


def _comes_back(where: Where) -> str:
    return "shows its progress" if where.url else "continues it"


def _tell_waits(screen: Screen, result: Result, where: Where) -> None:
    for wait in result.waits:
        until = f", until {moment(wait.due)}" if wait.due is not None and wait.kind != "wait" else ""
        named = wait.ask or wait.call
        screen.tell(f"waiting: {one_line(wait.what)}, {named} of session {wait.session}{until}")
    for hint in _ways_far(result, where) if where.far else _ways_on(result, where.again(result.session)):
        screen.tell(f"hint: {hint}")


def _ways_on(result: Result, again: str) -> Iterator[str]:
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


def _ways_far(result: Result, where: Where) -> Iterator[str]:
    """Yield hints for a foreign server: its data takes answers only through the server."""
    again = where.again(result.session)
    if any(wait.ask is not None for wait in result.waits):
        yield f"`{again}` at a terminal asks for the answer"
    else:
        yield f"`{again}` shows its progress once the result is in"


def _sum_up(screen: Screen, result: Result, again: str) -> None:
    if result.finish == "length":
        screen.tell("warning: the model reached its output limit; the answer is incomplete")
    if result.finish == "max-steps":
        screen.tell(f"warning: the agent reached its limit of steps in one turn; `{again} PROMPT` continues")
    if screen.watched:
        screen.note(f"session {result.session}, {amount(result.tokens)} tokens, {dollars(result.cost)}")


def failure_text(failure: Failure | None) -> str:
    """Return the message of a failure, or its name if it has none."""
    if failure is None:
        return NO_ANSWER
    return one_line(told(failure)[1], 1000)


def as_json(result: Result) -> str:
    return encode(result).decode()
