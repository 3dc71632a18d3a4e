"""Calls, controls and messages with plausible content, for tests that look at one thing of them."""

from typing import Any

from msgspec.structs import replace

from asyncagents.domain.call.ask import Option, PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Call, CallState, Open, OpenKind, Requested
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import (
    AssistantMessage,
    MessagePath,
    MessageTime,
    ModelRef,
    UserMessage,
)
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import CallId, MessageId, PartId, PermissionId, QuestionId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.task.task import Account, Task, TaskEnd

SESSION = SessionId("ses_1")
CONTROL = Control(SESSION, None, SESSION, 0, "local")
FENCE = 7

PERMISSION = PermissionRequest(
    id=PermissionId("per_1"), session_id=SESSION, permission="bash", patterns=("ls",), metadata={}, always=()
)
QUESTION = QuestionRequest(
    id=QuestionId("que_1"),
    session_id=SESSION,
    questions=(
        Question(
            question="Which colour?", header="Colour", options=(Option(label="red", description="warm"),)
        ),
    ),
)


def call(state: CallState | None = None, *, id: str = "tool_1", **more: Any) -> Call:
    made = Call(
        id=CallId(id),
        session_id=SESSION,
        message_id=MessageId("msg_2"),
        part_id=PartId(f"prt_{id}"),
        call_id="toolu_1",
        tool="deploy",
        input={"env": "prod"},
        turn=1,
        created=100,
        state=state or Requested(),
    )
    return replace(made, **more)


def open_state(kind: OpenKind, *, due: int | None = None, note: str = "") -> Open:
    """An open state; one that asks has its request."""
    return Open(
        kind=kind,
        since=50,
        due=due,
        note=note,
        ask=PERMISSION if kind == "ask" else None,
        question=QUESTION if kind == "question" else None,
    )


def user(id: str = "msg_1") -> UserMessage:
    return UserMessage(
        id=MessageId(id),
        session_id=SESSION,
        time=MessageTime(created=10),
        agent="build",
        model=ModelRef(provider_id="scripted", model_id="parrot"),
    )


def step(finish: str | None = None, error: Failure | None = None, *, id: str = "msg_2") -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(id),
        session_id=SESSION,
        parent_id=MessageId("msg_1"),
        time=MessageTime(created=20),
        model_id="parrot",
        provider_id="scripted",
        mode="build",
        agent="build",
        path=MessagePath(cwd="/work", root="/work"),
        cost=0,
        tokens=Tokens.zero(),
        finish=finish,
        error=error,
    )


NOW = 1_763_284_800_000
ACCOUNT = Account(
    finish="stop",
    tool_calls=3,
    by_name={"bash": 1, "read": 2},
    last_tools=("read", "read", "bash"),
    tokens=Tokens(input=1200, output=300, reasoning=40, cache=CacheTokens(read=5, write=6)),
    cost=0.0125,
    ms=65_000,
)


def build_task(**more: Any) -> Task:
    task = Task(
        id=SessionId("ses_child"),
        parent_id=SessionId("ses_parent"),
        message_id=MessageId("msg_launch"),
        parent_agent="build",
        agent="explore",
        description="Find the tests",
        prompt="Where are the tests?",
        batch="bat_1",
        created=NOW - 65_000,
    )
    return replace(task, **more)


def ended_task(**more: Any) -> Task:
    """One that completed, unless told otherwise."""
    task = build_task(status="completed", ended=NOW, result="In tests/.", account=ACCOUNT)
    return replace(task, **more)


def build_task_end(**more: Any) -> TaskEnd:
    end = TaskEnd(
        id=SessionId("ses_child"),
        run=0,
        description="Find the tests",
        agent="explore",
        batch="bat_1",
        status="completed",
        ms=65_000,
        result="In tests/.",
    )
    return replace(end, **more)
