"""Explains why a session does not proceed: a code and one sentence, derived from its rows."""

from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.external_session import ExternalSession
from asyncagents.domain.call.call import Call, Open, Running
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.conversation.failure import Failure, MessageAbortedError, describe_failure
from asyncagents.domain.envelope import one_line
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Backoff, Control
from asyncagents.domain.shape import Shape
from asyncagents.domain.task.task import Task

WhyCode: TypeAlias = Literal[
    "working", "tool", "ready", "no_worker", "queued", "permission", "question", "task", "async", "wait",
    "retry", "tasks", "held", "aborted", "blocked", "crash_loop", "failed", "idle", "unreadable",
    "no_model", "external_agent", "server_task",
]  # fmt: skip
FILE_POOL = "local"
"""The pool of sessions in an SQLite file, which any `run` on the machine can serve."""
CLAIM_GRACE_MS = 2_000
"""Max usual time between a wake and a run."""


class Why(Shape, frozen=True, kw_only=True):
    """Why a session does not proceed: a code for programs and a sentence for people."""

    session_id: SessionId
    code: WhyCode
    sentence: str
    on: tuple[str, ...] = ()
    """Ids of the asks, pending calls or tasks that it waits for."""


class Situation(Struct, frozen=True, kw_only=True):
    """The rows that explain why a session does not proceed."""

    control: Control
    now: int
    updated: int
    calls: tuple[Call, ...] = ()
    queued: int = 0
    held: int = 0
    """The number of inputs held until the next prompt."""
    due: int = 0
    """The number of notices to promote."""
    cancelled: bool = False
    """Whether a cancel applies to the session."""
    place: int = 0
    """The place in the queue of its tree, from 1; 0: not queued."""
    crowd: int = 0
    asked: int | None = None
    """When the open model request was sent."""
    backoff: Backoff | None = None
    error: Failure | None = None
    """The error of its last step."""
    blocked: bool = False
    """Whether a person rejected a call in its last turn."""
    children: tuple[Task, ...] = ()
    """The live tasks that it launched."""
    external: ExternalSession | None = None
    """The external session in which it works."""
    owner_lives: bool = False
    served: bool = False
    """Whether the asking process runs sessions."""


def explain_session(situation: Situation) -> Why:
    """Return the first reason that applies."""
    control = situation.control
    if (
        situation.cancelled
        and not situation.served
        and not (control.state == "running" and situation.owner_lives)
    ):
        return _why(situation, "aborted", "It was cancelled, and goes on with nothing.")
    if control.backoff is not None and situation.backoff is not None:
        return _retrying(situation, situation.backoff)
    if control.state == "running":
        return _running(situation)
    if control.state == "ready" and (control.in_turn or situation.queued or situation.due or situation.calls):
        return _ready(situation)
    waiting = [call for call in situation.calls if call.open]
    return _waiting(situation, waiting) if waiting else _resting(situation)


def _why(situation: Situation, code: WhyCode, sentence: str, *on: str) -> Why:
    return Why(session_id=situation.control.id, code=code, sentence=sentence, on=on)


def _retrying(situation: Situation, backoff: Backoff) -> Why:
    failed = f"The model failed ({one_line(backoff.failure)})"
    taken = situation.served or (situation.control.state == "running" and situation.owner_lives)
    if not taken and situation.now - backoff.next_at >= CLAIM_GRACE_MS:
        return _no_worker(situation, f"{failed} and may be asked again now")
    wait = max(0, backoff.next_at - situation.now) // 1000
    return _why(situation, "retry", f"{failed} and is asked again in {wait} s.")


def _running(situation: Situation) -> Why:
    if not situation.owner_lives:
        return _no_worker(situation, "The process that ran it is gone")
    asking = [call for call in situation.calls if call.only_asks]
    if asking:  # an external agent waits for its answer
        return _waiting(situation, asking)
    external = situation.external
    if external is not None and external.prompt is not None:
        seconds = max(0, situation.now - external.prompt.sent) // 1000
        sentence = f"It waits for the external agent {one_line(external.agent)}, asked {seconds} s ago."
        return _why(situation, "external_agent", sentence)
    tools = [call.tool for call in situation.calls if isinstance(call.state, Running)]
    if tools:
        return _why(situation, "tool", f"It runs {', '.join(map(one_line, tools))}.")
    if situation.asked is not None:
        seconds = max(0, situation.now - situation.asked) // 1000
        return _why(situation, "working", f"It waits for its model, which was asked {seconds} s ago.")
    return _why(situation, "working", "It is at work: a model is about to be asked.")


def _ready(situation: Situation) -> Why:
    if situation.place:
        sentence = (
            f"It queues at place {situation.place}: {situation.crowd} sessions of its tree may work at once."
        )
        return _why(situation, "queued", sentence)
    if situation.served or situation.now - situation.updated < CLAIM_GRACE_MS:
        return _why(situation, "ready", "It is about to be taken up.")
    return _no_worker(situation, "It is ready to run")


def _no_worker(situation: Situation, what: str) -> Why:
    if situation.served:
        return _why(situation, "ready", f"{what}; it is about to be taken up.")
    pool = situation.control.pool
    if pool == FILE_POOL:
        cause = f"no process serves it: run it with `asyncagents run --session {situation.control.root_id}`"
    else:
        worker = f"`asyncagents worker --pools {pool}`"
        cause = f"no worker serves the pool {pool!r}: start one where its directories are, with {worker}"
    return _why(situation, "no_worker", f"{what}, and {cause}.")


def _waiting(situation: Situation, calls: list[Call]) -> Why:
    """Explain by the most blocking open call: a person's answer, a task, then results from outside."""
    order = {"ask": 0, "question": 1, "task": 2, "wait": 4, "async": 5}
    first = min(calls, key=lambda call: (_rank(order, call), call.id))
    state = first.open
    assert state is not None, "only open calls wait"
    match state.kind:
        case "ask":
            asked = f"{state.ask.permission} {', '.join(state.ask.patterns)}" if state.ask else first.tool
            sentence = _waits_for_person(situation, first, state, f"allow {one_line(asked)}")
            return _why(situation, "permission", sentence, first.ask_id or first.id)
        case "question":
            sentence = _waits_for_person(situation, first, state, "answer a question")
            return _why(situation, "question", sentence, first.ask_id or first.id)
        case "task":
            ids = [child for call in calls if (child := _child_id(call))]
            return _why(
                situation, "task", f"It waits for {_count(len(ids), 'task')} to end: {', '.join(ids)}.", *ids
            )
        case "wait":
            target = f" for task {state.watch.task_id} to end" if state.watch else ""
            on = state.watch.task_id if state.watch else first.id
            return _why(situation, "wait", f"It waits{target}{_until(situation, state)}.", on)
        case "async" if state.question is not None:
            asked = " / ".join(each.question for each in state.question.questions)
            what = "decide" if state.approval else "answer"
            sentence = _waits_for_person(situation, first, state, f'{what} "{one_line(asked)}"')
            return _why(situation, "question", sentence, first.ask_id or first.id, first.id)
        case "async" if first.server_task is not None:
            sentence = _waits_for_server(situation, first, first.server_task, state)
            return _why(situation, "server_task", sentence, first.id)
        case "async":
            ids = [call.id for call in calls if call.open and call.open.kind == "async"]
            sentence = (
                f"It waits for the result of {one_line(first.tool)} ({first.id}){_until(situation, state)}."
            )
            return _why(situation, "async", sentence, *ids)


def _waits_for_server(situation: Situation, call: Call, task: ServerTask, state: Open) -> str:
    server, until = one_line(task.server), _until(situation, state)
    sentence = f"It waits for a task of the MCP server {server} ({one_line(call.tool)}, {call.id}){until}"
    if task.failures:
        tries = "once" if task.failures == 1 else f"{task.failures} times in a row"
        return f"{sentence}; the server could not be asked {tries}, the log says why."
    return f"{sentence}; the server is asked every {task.poll_ms / 1000:g} s."


def _rank(order: dict[str, int], call: Call) -> int:
    """Rank a call; a question that does not block the session comes after blocking calls."""
    if call.open is None:
        return 9
    return 3 if call.asking and not call.only_asks else order[call.open.kind]


def _waits_for_person(situation: Situation, call: Call, state: Open, what: str) -> str:
    """Build the sentence of who is asked for what, and until when."""
    whom = one_line(state.who) if state.who else "a person"
    until = _until(situation, state)
    return f"It waits for {whom} to {what}{until}: answer with `asyncagents answer {call.ask_id}`."


def _child_id(call: Call) -> str | None:
    """Return the session id of the task that a call waits for."""
    waits = call.open is not None and call.open.kind == "task"
    return str(call.open.metadata.get("sessionId", call.id)) if waits and call.open else None


def _until(situation: Situation, state: Open) -> str:
    return "" if state.due is None else f", at most {max(0, state.due - situation.now) // 1000} s more"


def _count(count: int, noun: str) -> str:
    return f"a {noun}" if count == 1 else f"{count} {noun}s"


def _resting(situation: Situation) -> Why:
    if situation.children:
        ids = [task.id for task in situation.children]
        tasks = _count(len(ids), "background task")
        sentence = f"It rests until {tasks} of its own {'ends' if len(ids) == 1 else 'end'}."
        return _why(situation, "tasks", sentence, *ids)
    if situation.blocked:
        return _why(situation, "blocked", "Its last turn stopped because a person said no to a tool call.")
    if situation.error is not None:
        return _last_failure(situation, situation.error)
    if situation.held:
        return _why(
            situation, "held", f"It rests; {_count(situation.held, 'message')} waits for the next prompt."
        )
    return _why(situation, "idle", "It rests: everything it was asked has been answered.")


def _last_failure(situation: Situation, error: Failure) -> Why:
    name, message = describe_failure(error)
    if isinstance(error, MessageAbortedError):
        held_text = (
            f" {_count(situation.held, 'message')} waits for the next prompt." if situation.held else ""
        )
        return _why(situation, "aborted", f"Its last turn was aborted.{held_text}")
    if message.startswith("crash_loop:"):
        return _why(situation, "crash_loop", one_line(message.removeprefix("crash_loop:").strip(), most=400))
    error_text = one_line(message, most=300).rstrip(".")
    return _why(situation, "failed", f"Its last turn failed with {name}: {error_text}.")
