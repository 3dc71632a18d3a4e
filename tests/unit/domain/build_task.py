"""Tasks and their ends with plausible content."""

from typing import Any

from msgspec.structs import replace

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.task import Account, Task, TaskEnd

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


def a_task(**more: Any) -> Task:
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


def ended(**more: Any) -> Task:
    """One that completed, unless told otherwise."""
    task = a_task(status="completed", ended=NOW, result="In tests/.", account=ACCOUNT)
    return replace(task, **more)


def an_end(**more: Any) -> TaskEnd:
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
