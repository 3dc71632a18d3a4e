"""A task as clients see it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import FollowUp, Progress, Task, TaskError, Totals
from asyncagents.domain.task.view import background_task
from tests.support.domain.state import ACCOUNT, NOW, build_task, ended_task

SPENT = Tokens(input=7, output=1, reasoning=0, cache=CacheTokens(read=0, write=0))
PROGRESS = Progress(
    tool_calls=2,
    by_name={"read": 2},
    last_tools=("read", "read"),
    updated=NOW + 7,
    phase="queued",
    place=3,
    tokens=SPENT,
    cost=0.5,
)
ALWAYS = {
    "sessionID": "ses_child",
    "parentSessionID": "ses_parent",
    "parentMessageID": "msg_launch",
    "parentAgent": "build",
    "description": "Find the tests",
    "prompt": "Where are the tests?",
    "agent": "explore",
    "kind": "background",
    "status": "running",
    "startedAt": "2025-11-16T09:18:55.000Z",
    "batchId": "bat_1",
    "resumeCount": 0,
    "isForked": False,
}


def wire(task: Task, progress: Progress | None = None) -> Any:
    return json.loads(encode(background_task(task, progress)))


@pytest.mark.spec("T-16", "T-17")
def test_a_task_that_has_just_begun_has_only_the_required_fields() -> None:
    assert wire(build_task()) == ALWAYS


@pytest.mark.spec("T-06", "T-16")
def test_a_live_task_has_its_progress_and_the_follow_up_that_waits() -> None:
    follow = FollowUp(MessageId("msg_9"), "and then?", NOW)
    assert wire(build_task(follow=follow), PROGRESS) == ALWAYS | {
        "pendingResume": {"prompt": "and then?", "queuedAt": "2025-11-16T09:20:00.000Z"},
        "progress": {
            "startedAt": "2025-11-16T09:18:55.000Z",
            "toolCalls": 2,
            "toolCallsByName": {"read": 2},
            "lastTools": ["read", "read"],
            "lastUpdate": "2025-11-16T09:20:00.007Z",
            "tokens": {"input": 7, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "cost": 0.5,
            "phase": "queued",
            "place": 3,
        },
    }


@pytest.mark.spec("T-16")
def test_an_ended_task_has_its_end_its_result_and_its_figures() -> None:
    task = ended_task(
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
            "startedAt": "2025-11-16T09:18:55.000Z",
            "tokens": {"input": 1200, "output": 300, "reasoning": 40, "cache": {"read": 5, "write": 6}},
            "cost": 0.0125,
            "duration": 65_000,
        },
    }


@pytest.mark.spec("T-16")
def test_a_task_without_text_and_account_has_an_empty_result_and_no_progress() -> None:
    told = wire(ended_task(result="", account=None))
    assert told["result"] == ""
    assert "progress" not in told
    assert "phase" not in wire(ended_task(account=replace(ACCOUNT, by_name={})))["progress"]


@pytest.mark.spec("Z-03")
def test_a_task_that_its_parent_waits_for_is_of_the_kind_sync() -> None:
    assert wire(build_task(background=False))["kind"] == "sync"


def test_a_task_whose_session_was_deleted_is_marked_as_gone() -> None:
    assert wire(ended_task(gone=True))["gone"] is True


EARLIER = Totals(tool_calls=4, by_name={"read": 4}, tokens=SPENT, cost=0.5, ms=5_000)


@pytest.mark.spec("Z-05")
def test_sums_over_all_runs_stand_apart_from_the_latest_run() -> None:
    over = wire(ended_task(run=1, earlier=EARLIER))
    assert over["progress"]["toolCalls"] == 3
    assert over["progress"]["duration"] == 65_000
    assert over["totals"] == {
        "runs": 2,
        "toolCalls": 7,
        "toolCallsByName": {"read": 6, "bash": 1},
        "tokens": {"input": 1207, "output": 301, "reasoning": 40, "cache": {"read": 5, "write": 6}},
        "cost": 0.5125,
        "duration": 70_000,
    }
    live = wire(build_task(status="resumed", run=1, earlier=EARLIER, account=ACCOUNT), PROGRESS)
    assert live["progress"]["toolCalls"] == 2
    assert live["totals"]["runs"] == 2
    assert live["totals"]["toolCalls"] == 6
    assert "duration" not in live["totals"]


@pytest.mark.spec("Z-05")
def test_sums_that_an_older_program_stored_are_shown_as_totals_only() -> None:
    mixed = wire(ended_task(run=2))
    assert "progress" not in mixed
    assert mixed["totals"]["runs"] == 3
    assert mixed["totals"]["toolCalls"] == 3
    assert "duration" not in mixed["totals"]
