"""A task as clients see it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.domain.background_task import background_task
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import encode
from asyncagents.domain.task import Follow, Progress, Task, TaskError
from tests.unit.domain.build_task import ACCOUNT, NOW, a_task, ended

PROGRESS = Progress(
    tool_calls=2, by_name={"read": 2}, last_tools=("read", "read"), updated=NOW + 7, phase="queued", place=3
)
ALWAYS = {
    "sessionID": "ses_child",
    "parentSessionID": "ses_parent",
    "parentMessageID": "msg_launch",
    "parentAgent": "build",
    "description": "Find the tests",
    "prompt": "Where are the tests?",
    "agent": "explore",
    "status": "running",
    "startedAt": "2025-11-16T09:18:55.000Z",
    "batchId": "bat_1",
    "resumeCount": 0,
    "isForked": False,
}


def wire(task: Task, progress: Progress | None = None) -> Any:
    return json.loads(encode(background_task(task, progress)))


@pytest.mark.spec("T-16", "T-17")
def test_a_task_that_has_just_begun_has_only_what_is_known() -> None:
    assert wire(a_task()) == ALWAYS


@pytest.mark.spec("T-06", "T-16")
def test_a_live_task_has_its_progress_and_the_follow_up_that_waits() -> None:
    follow = Follow(MessageId("msg_9"), "and then?", NOW)
    assert wire(a_task(follow=follow), PROGRESS) == ALWAYS | {
        "pendingResume": {"prompt": "and then?", "queuedAt": "2025-11-16T09:20:00.000Z"},
        "progress": {
            "toolCalls": 2,
            "toolCallsByName": {"read": 2},
            "lastTools": ["read", "read"],
            "lastUpdate": "2025-11-16T09:20:00.007Z",
            "phase": "queued",
            "place": 3,
        },
    }


@pytest.mark.spec("T-16")
def test_an_ended_task_has_its_end_and_what_it_came_to() -> None:
    task = ended(
        status="error",
        error=TaskError("APIError", "down"),
        ended_by="deadline",
        retrieved=NOW + 250,
        resumes=2,
        forked=True,
    )
    assert wire(task, PROGRESS) == ALWAYS | {
        "status": "error",
        "completedAt": "2025-11-16T09:20:00.000Z",
        "resultRetrievedAt": "2025-11-16T09:20:00.250Z",
        "result": "In tests/.",
        "error": "APIError: down",
        "endedBy": "deadline",
        "resumeCount": 2,
        "isForked": True,
        "progress": {
            "toolCalls": 3,
            "toolCallsByName": {"bash": 1, "read": 2},
            "lastTools": ["read", "read", "bash"],
            "lastUpdate": "2025-11-16T09:20:00.000Z",
        },
    }


@pytest.mark.spec("T-16")
def test_a_silent_end_is_an_empty_result_and_nothing_is_counted_that_was_not() -> None:
    told = wire(ended(result="", account=None))
    assert told["result"] == ""
    assert "progress" not in told
    assert "phase" not in wire(ended(account=replace(ACCOUNT, by_name={})))["progress"]
