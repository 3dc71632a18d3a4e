"""Why a session does not move: every code has its situation, and a sentence that says what to do."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from asyncagents.domain.agent.external_session import ExternalSession, PromptUnderWay
from asyncagents.domain.call.ask import Question, QuestionRequest
from asyncagents.domain.call.call import AsyncState, Requested, Running, WaitFor
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.conversation.failure import aborted_error, api_error, unknown_error
from asyncagents.domain.id import MessageId, OwnerId, QuestionId, RequestId, SessionId
from asyncagents.domain.session_state import Backoff, Control
from asyncagents.domain.why import CLAIM_GRACE_MS, Situation, WhyCode, explain_session
from tests.support.domain.state import SESSION, build_task, call, open_state

NOW = 1_000_000
IDLE = Control(id=SESSION, parent_id=None, root_id=SESSION, depth=0, pool="local", turn=1)
READY = replace(IDLE, state="ready")
RUNS = replace(IDLE, state="running", owner=OwnerId("o"), in_turn=True)
BACKOFF = Backoff(
    request_id=RequestId("req_1"),
    message_id=MessageId("msg_2"),
    attempt=1,
    next_at=NOW + 7_000,
    failure="overloaded",
)
CHILD = SessionId("ses_child")
EXTERNAL = ExternalSession(
    session_id=SESSION,
    external_id="their-1",
    agent="reviewer",
    command=("reviewer", "--acp"),
    prompt=PromptUnderWay(step_id=MessageId("msg_2"), sent=NOW - 8_000),
)
WATCH = replace(open_state("wait", due=NOW + 9_000), watch=WaitFor(CHILD, "asyncagents_output"))
SHIP = replace(
    open_state("async", due=NOW + 9_000),
    who="release managers",
    approval=True,
    question=QuestionRequest(
        id=QuestionId("que_1"),
        session_id=SESSION,
        questions=(Question(question="Ship it?", header="", options=()),),
    ),
)
AT_SERVER = AsyncState(server_task=ServerTask(server="kit", id="task-1", poll_ms=5_000))
OUT_OF_REACH = AsyncState(server_task=ServerTask(server="kit", id="task-1", failures=3))
TASK = replace(open_state("task"), metadata={"sessionId": CHILD})


def situation(control: Control = IDLE, **more: Any) -> Situation:
    return replace(Situation(control=control, now=NOW, updated=0), **more)


CASES: list[tuple[Situation, WhyCode, str]] = [
    (situation(RUNS, owner_lives=True), "working", "a model is about to be asked"),
    (situation(RUNS, owner_lives=True, asked=NOW - 93_000), "working", "its model, which was asked 93 s ago"),
    (situation(RUNS, owner_lives=True, calls=(call(Running(1)),)), "tool", "It runs deploy."),
    (situation(RUNS), "no_worker", f"asyncagents run --session {SESSION}"),
    (situation(RUNS, served=True), "ready", "about to be taken up"),
    (situation(READY, queued=1), "no_worker", f"asyncagents run --session {SESSION}"),
    (situation(READY, queued=1, updated=NOW - CLAIM_GRACE_MS + 1), "ready", "about to be taken up"),
    (situation(READY, due=1, served=True), "ready", "about to be taken up"),
    (situation(READY, queued=1, place=3, crowd=20), "queued", "place 3: 20 sessions"),
    (situation(calls=(call(open_state("ask"), ask_id="per_1"),)), "permission", "answer per_1"),
    (situation(calls=(call(open_state("question"), ask_id="que_1"),)), "question", "answer que_1"),
    (
        situation(calls=(call(open_state("async")), call(SHIP, ask_id="que_1"))),
        "question",
        'It waits for release managers to decide "Ship it?", at most 9 s more: '
        "answer with `asyncagents answer que_1`.",
    ),
    (situation(calls=(call(SHIP, ask_id="que_1"), call(TASK))), "task", "for a task to end"),
    (situation(calls=(call(TASK),)), "task", "It waits for a task to end: ses_child."),
    (situation(calls=(call(WATCH),)), "wait", "for task ses_child to end, at most 9 s more"),
    (situation(calls=(call(open_state("wait", due=NOW + 9_000)),)), "wait", "It waits, at most 9 s more."),
    (situation(calls=(call(open_state("async")),)), "async", "the result of deploy (tool_1)"),
    (
        situation(calls=(call(open_state("async", due=NOW + 9_000), later=AT_SERVER),)),
        "server_task",
        "It waits for a task of the MCP server kit (deploy, tool_1), at most 9 s more; "
        "the server is asked every 5 s.",
    ),
    (
        situation(calls=(call(open_state("async"), later=OUT_OF_REACH),)),
        "server_task",
        "(deploy, tool_1); the server could not be asked 3 times in a row, the log says why.",
    ),
    (
        situation(RUNS, owner_lives=True, external=EXTERNAL),
        "external_agent",
        "It waits for the external agent reviewer, asked 8 s ago.",
    ),
    (
        situation(replace(RUNS, backoff=RequestId("req_1")), backoff=BACKOFF),
        "retry",
        "(overloaded) and is asked again in 7 s",
    ),
    (
        situation(replace(IDLE, backoff=RequestId("req_1")), backoff=replace(BACKOFF, next_at=NOW - 1_999)),
        "retry",
        "(overloaded) and is asked again in 0 s",
    ),
    (
        situation(replace(IDLE, backoff=RequestId("req_1")), backoff=replace(BACKOFF, next_at=NOW - 2_000)),
        "no_worker",
        "(overloaded) and may be asked again now, and no process serves it: run it with `asyncagents run",
    ),
    (
        situation(
            replace(IDLE, backoff=RequestId("req_1")),
            backoff=replace(BACKOFF, next_at=NOW - 9_000),
            served=True,
        ),
        "retry",
        "(overloaded) and is asked again in 0 s",
    ),
    (
        situation(
            replace(RUNS, backoff=RequestId("req_1")),
            backoff=replace(BACKOFF, next_at=NOW - 9_000),
            owner_lives=True,
        ),
        "retry",
        "(overloaded) and is asked again in 0 s",
    ),
    (situation(children=(build_task(),)), "tasks", "until a background task of its own ends."),
    (situation(children=(build_task(), build_task())), "tasks", "until 2 background tasks of its own end."),
    (situation(held=1), "held", "a message waits for the next prompt"),
    (situation(error=aborted_error()), "aborted", "Its last turn was aborted."),
    (situation(replace(READY, in_turn=True), cancelled=True), "aborted", "It was cancelled"),
    (situation(blocked=True), "blocked", "a person said no"),
    (situation(error=unknown_error("crash_loop: it died 5 times")), "crash_loop", "it died 5 times"),
    (situation(error=api_error("Nope.", is_retryable=False)), "failed", "APIError: Nope."),
    (situation(), "idle", "everything it was asked has been answered"),
    (situation(READY), "idle", "everything it was asked has been answered"),
]


@pytest.mark.spec("X-09")
@pytest.mark.parametrize(("situation", "code", "words"), CASES)
def test_a_situation_has_a_code_and_a_sentence(situation: Situation, code: WhyCode, words: str) -> None:
    why = explain_session(situation)
    assert why.code == code
    assert why.session_id == SESSION
    assert words in why.sentence
    assert "\n" not in why.sentence


def test_every_code_has_a_situation() -> None:
    """But the one for rows that cannot be read, which is told before any situation is known."""
    assert {code for _, code, _ in CASES} | {"unreadable", "no_model"} == set(get_args(WhyCode))


@pytest.mark.parametrize(
    ("open_call", "on"),
    [(call(TASK), CHILD), (call(WATCH), CHILD), (call(open_state("async")), "tool_1")],
)
def test_a_waiting_session_names_the_task_or_call_that_it_waits_for(open_call: Any, on: str) -> None:
    assert explain_session(situation(calls=(open_call,))).on == (on,)


def test_asks_are_reported_before_tasks_waits_and_async_calls() -> None:
    calls = [
        call(open_state("async"), id="tool_1"),
        call(WATCH, id="tool_2"),
        call(TASK, id="tool_3"),
        call(open_state("ask"), id="tool_4", ask_id="per_1"),
    ]
    found = [explain_session(situation(calls=tuple(calls[:count]))).code for count in (1, 2, 3, 4)]
    assert found == ["async", "wait", "task", "permission"]


def test_a_session_with_only_a_requested_call_counts_as_idle() -> None:
    assert explain_session(situation(calls=(call(Requested()),))).code == "idle"
