"""The status API: tasks, what they said, and groups. Each scenario of the source is a test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from asyncagents.domain.shape import encode
from asyncagents.llm.scripted import call, fail, say
from tests.support.delegation import RequestScript, launch_task, task_named, wait_until_quiet, wait_until_rest
from tests.support.http.server import StageClient, serve_delegation
from tests.support.tool import ECHO, Gate

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 60
SECRET = "sk-ant-0123456789 of bob@example.com"
UNKNOWN = "ses_00000000000000000000000000"
SCENES: RequestScript = {
    "count": [[launch_task(f"Count 100% of {n}_{n}", f"number {n}") for n in range(MANY)], [say("Off.")]],
    "go": [
        [
            launch_task("Find the Blue Door", "find"),
            launch_task("Break", "break"),
            call("asyncagents_task", description="Explore ÄRGER", prompt="explore", agent="explore"),
            launch_task("Wait", "wait"),
            launch_task("Stop me", "stop"),
        ],
        [say("Off they go.")],
    ],
    "find": [[call("echo", text=SECRET)], [say("It is behind the green one.")]],
    "break": [[fail("the model is on fire")]],
    "wait": [[say("I begin."), call("gate")], [say("Through.")]],
    "stop": [[call("hold")]],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def board(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StageClient]:
    """Sixty tasks that ended, then a group: two ended well, one badly, one was cancelled, one runs."""
    gate, hold = Gate("gate"), Gate("hold")
    async with serve_delegation(tmp_path_factory.mktemp("board"), SCENES, ECHO, gate.tool, hold.tool) as at:
        await at.stage.prompt("count")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        await at.stage.prompt("go")
        for name in ("Find the Blue Door", "Break", "Explore ÄRGER"):
            await wait_until_rest(at.runtime, (await task_named(at.runtime, name)).session_id)
        await gate.until_started()
        await hold.until_started()
        assert await at.runtime.tasks.cancel((await task_named(at.runtime, "Stop me")).session_id)
        yield at
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)


async def wired(board: StageClient, name: str) -> Any:
    """A task as the library knows it."""
    return encode(await task_named(board.runtime, name))


def names(page: Any) -> list[str]:
    return [task["description"] for task in page["tasks"]]


@pytest.mark.spec("H-03")
async def test_returns_all_tasks_when_no_filters_applied(board: StageClient) -> None:
    page = await board.json("/v1/tasks")
    rest = await board.json("/v1/tasks", offset=50)

    assert page.keys() == {"tasks", "total", "limit", "offset"}
    assert len(page["tasks"]) == 50
    assert page["total"] == 65
    assert page["limit"] == 50
    assert page["offset"] == 0
    assert names(page)[:5] == ["Stop me", "Wait", "Explore ÄRGER", "Break", "Find the Blue Door"]
    assert names(page)[5:] + names(rest) == [f"Count 100% of {n}_{n}" for n in reversed(range(MANY))]


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("running", ["Wait"]),
        ("error", ["Break"]),
        ("cancelled", ["Stop me"]),
        ("resumed", []),
    ],
)
async def test_filters_by_status_parameter(board: StageClient, status: str, found: list[str]) -> None:
    page = await board.json("/v1/tasks", status=status)
    assert names(page) == found
    assert page["total"] == len(found)
    assert {task["status"] for task in page["tasks"]} <= {status}


@pytest.mark.spec("H-03")
async def test_filters_by_agent_parameter(board: StageClient) -> None:
    explorers = await board.json("/v1/tasks", agent="explore")
    others = await board.json("/v1/tasks", agent="general", limit=1)
    nobody = await board.json("/v1/tasks", agent="gen")

    assert names(explorers) == ["Explore ÄRGER"]
    assert explorers["total"] == 1
    assert len(others["tasks"]) == 1
    assert others["total"] == MANY + 4
    assert names(nobody) == []
    assert nobody["total"] == 0


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    ("search", "total"),
    [
        ("blue door", 1),
        ("BLUE", 1),
        ("ärger", 1),
        ("the Blue Door", 1),
        ("count", MANY),
        ("100%", MANY),
        ("10%0", 0),
        ("_", MANY),
        ("%", MANY),
        ("*", 0),
        ("?", 0),
        ("[a-z]", 0),
        ("59_59", 1),
        ("", MANY + 5),
    ],
)
async def test_searches_description_by_keyword(board: StageClient, search: str, total: int) -> None:
    page = await board.json("/v1/tasks", search=search, limit=200)
    assert len(page["tasks"]) == total
    assert page["total"] == total
    assert all(search.casefold() in name.casefold() for name in names(page))


@pytest.mark.spec("H-03")
async def test_paginates_with_limit_and_offset(board: StageClient) -> None:
    everything = await board.json("/v1/tasks", limit=200)
    page = await board.json("/v1/tasks", limit=10, offset=20)
    beyond = await board.json("/v1/tasks", limit=10, offset=10_000)

    assert page["tasks"] == everything["tasks"][20:30]
    assert page["total"] == MANY + 5
    assert page["limit"] == 10
    assert page["offset"] == 20
    assert beyond == {"tasks": [], "total": MANY + 5, "limit": 10, "offset": 10_000}


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    ("query", "total"),
    [
        ({}, MANY + 5),
        ({"limit": 1}, MANY + 5),
        ({"search": "count", "offset": 59}, MANY),
        ({"search": "count", "offset": 61}, MANY),
        ({"search": "e", "agent": "general", "status": "error"}, 1),
        ({"search": "e", "agent": "explore", "status": "error"}, 0),
        ({"agent": "general", "status": "completed", "limit": 3}, MANY + 1),
    ],
)
async def test_returns_total_count_alongside_results(
    board: StageClient, query: dict[str, str | int], total: int
) -> None:
    assert (await board.json("/v1/tasks", **query))["total"] == total


@pytest.mark.spec("H-03")
async def test_a_page_has_two_hundred_tasks_at_most(board: StageClient) -> None:
    for limit in (200, 201, 10**15):
        page = await board.json("/v1/tasks", limit=limit)
        assert page["limit"] == 200
        assert len(page["tasks"]) == MANY + 5


@pytest.mark.spec("H-03")
@pytest.mark.parametrize(
    "query",
    [
        "status=done",
        "status=Running",
        "status=",
        "status=running&status=error",
        "agent=",
        "agent=a&agent=a",
        "search=a&search=b",
        "limit=0",
        "limit=-1",
        "limit=",
        "limit=ten",
        "limit=1.0",
        "limit=1e2",
        "limit=%D9%A1",
        "limit=+5",
        "limit=5&limit=5",
        f"limit={10**30}",
        "offset=-1",
        "offset=x",
        "offset=",
        f"offset={2**63}",
        f"offset={'9' * 5000}",
        "offset=1&offset=2",
    ],
)
async def test_an_invalid_query_is_refused_with_a_message_that_names_it(
    board: StageClient, query: str
) -> None:
    told = await board.get(f"/v1/tasks?{query}")
    assert told.status == 400
    assert told.json["name"] == "BadRequest"
    assert told.json["data"]["message"].startswith(query.partition("=")[0])
    assert len(told.body) < 300


@pytest.mark.spec("H-03")
async def test_a_zero_byte_in_a_query_is_refused(board: StageClient) -> None:
    for query in ("search=%00", "agent=a%00", "status=running%00", "limit=1%00"):
        told = await board.get(f"/v1/tasks?{query}")
        assert told.status == 400
        assert ("NUL" in told.json["data"]["message"]) is True


@pytest.mark.spec("H-03")
async def test_unknown_query_parameters_are_ignored(board: StageClient) -> None:
    page = await board.json("/v1/tasks?directory=/x&workspace=&limit=1&Status=nonsense&__proto__=1")
    assert page["limit"] == 1
    assert page["total"] == MANY + 5


@pytest.mark.spec("H-04")
@pytest.mark.parametrize("name", ["Find the Blue Door", "Break", "Wait", "Stop me", "Explore ÄRGER"])
async def test_returns_full_task_object_for_valid_id(board: StageClient, name: str) -> None:
    task = await task_named(board.runtime, name)
    told = await board.get(f"/v1/tasks/{task.session_id}")
    assert told.status == 200
    assert told.body == await wired(board, name)
    assert told.headers["content-type"] == "application/json"


@pytest.mark.spec("H-04")
async def test_a_task_object_has_all_known_fields(board: StageClient) -> None:
    found = await task_named(board.runtime, "Find the Blue Door")
    task = await board.json(f"/v1/tasks/{found.session_id}")
    broken = (await board.json("/v1/tasks", status="error"))["tasks"][0]

    assert task["sessionID"] == found.session_id
    assert task["parentSessionID"] == board.stage.session_id
    assert task["description"] == "Find the Blue Door"
    assert task["prompt"] == "find"
    assert task["agent"] == "general"
    assert task["status"] == "completed"
    assert task["result"] == "It is behind the green one."
    assert task["resumeCount"] == 0
    assert task["isForked"] is False
    assert task["startedAt"] <= task["completedAt"]
    assert task["progress"]["toolCalls"] == 1
    assert task["progress"]["lastTools"] == ["echo"]
    assert "the model is on fire" in broken["error"]


@pytest.mark.spec("H-04")
@pytest.mark.parametrize(
    "id", [UNKNOWN, "x", "..%2F..%2Fetc%2Fpasswd", "%E4%BA%BA", "ses_%27%20OR%201=1", "a" * 2_000]
)
async def test_returns_404_for_unknown_id(board: StageClient, id: str) -> None:
    told = await board.get(f"/v1/tasks/{id}")
    assert told.status == 404
    assert told.json["name"] == "NotFoundError"
    assert told.json["data"]["message"]
    assert told.headers["content-type"] == "application/json"


@pytest.mark.spec("H-04")
async def test_a_session_that_is_not_a_task_returns_404(board: StageClient) -> None:
    for path in ("", "/logs"):
        assert (await board.get(f"/v1/tasks/{board.stage.session_id}{path}")).status == 404


@pytest.mark.spec("H-04")
async def test_returns_message_history_for_a_running_task(board: StageClient) -> None:
    task = await task_named(board.runtime, "Wait")
    log = await board.json(f"/v1/tasks/{task.session_id}/logs")

    assert task.status == "running"
    assert [entry["info"]["role"] for entry in log] == ["user", "assistant"]
    assert log[0]["parts"][0]["text"] == "wait"
    said, called = (part for part in log[1]["parts"] if part["type"] in {"text", "tool"})
    assert said["text"] == "I begin."
    assert called["tool"] == "gate"
    assert called["state"]["status"] == "running"


@pytest.mark.spec("H-04")
async def test_messages_are_returned_unmasked(board: StageClient) -> None:
    task = await task_named(board.runtime, "Find the Blue Door")
    log = await board.json(f"/v1/tasks/{task.session_id}/logs")
    (called,) = (part for entry in log for part in entry["parts"] if part["type"] == "tool")
    assert called["state"]["input"] == {"text": SECRET}
    assert called["state"]["output"] == SECRET


@pytest.mark.spec("H-04")
async def test_returns_message_history_for_a_completed_task(board: StageClient) -> None:
    task = await task_named(board.runtime, "Find the Blue Door")
    log = await board.get(f"/v1/tasks/{task.session_id}/logs")

    assert log.body == encode(await board.runtime.messages(task.session_id))
    assert [entry["info"]["role"] for entry in log.json] == ["user", "assistant", "assistant"]
    assert log.json[-1]["parts"][1]["text"] == "It is behind the green one."


@pytest.mark.spec("H-04")
async def test_returns_404_for_unknown_task_id(board: StageClient) -> None:
    told = await board.get(f"/v1/tasks/{UNKNOWN}/logs")
    assert told.status == 404
    assert told.json["name"] == "NotFoundError"
    assert UNKNOWN in told.json["data"]["message"]


@pytest.mark.spec("H-05")
async def test_returns_group_with_all_member_tasks_and_aggregate_stats(board: StageClient) -> None:
    batch = (await task_named(board.runtime, "Wait")).batch_id
    group = await board.json(f"/v1/task-groups/{batch}")
    stats = group["stats"]

    assert group.keys() == {"groupId", "tasks", "stats"}
    assert group["groupId"] == batch
    assert {task["batchId"] for task in group["tasks"]} == {batch}
    assert sorted(names(group)) == ["Break", "Explore ÄRGER", "Find the Blue Door", "Stop me", "Wait"]
    assert stats.keys() == {
        "completed", "running", "error", "cancelled", "total", "completionRate", "totalToolCalls", "duration",
    }  # fmt: skip
    assert stats["completed"] == 2
    assert stats["running"] == 1
    assert stats["error"] == 1
    assert stats["cancelled"] == 1
    assert stats["total"] == 5
    assert stats["completionRate"] == 0.4
    assert stats["totalToolCalls"] == sum(task["progress"]["toolCalls"] for task in group["tasks"]) >= 2
    assert isinstance(stats["duration"], int)


@pytest.mark.spec("H-05")
async def test_a_group_of_ended_tasks_has_zero_for_counts_without_tasks(
    board: StageClient,
) -> None:
    batch = (await task_named(board.runtime, "Count 100% of 0_0")).batch_id
    stats = (await board.json(f"/v1/task-groups/{batch}"))["stats"]
    again = (await board.json(f"/v1/task-groups/{batch}"))["stats"]
    assert stats["running"] == 0
    assert stats["error"] == 0
    assert stats["cancelled"] == 0
    assert stats["totalToolCalls"] == 0
    assert stats["completed"] == MANY
    assert stats["completionRate"] == 1
    assert stats == again, "its duration has come to an end, too"


@pytest.mark.spec("H-05")
@pytest.mark.parametrize("id", ["bat_none", "%25", "x" * 500])
async def test_returns_404_for_unknown_group_id(board: StageClient, id: str) -> None:
    told = await board.get(f"/v1/task-groups/{id}")
    assert told.status == 404
    assert told.json["name"] == "NotFoundError"
    assert told.json["data"]["message"]


@pytest.mark.spec("H-04")
async def test_why_names_the_tool_or_the_tasks_that_a_session_waits_for(board: StageClient) -> None:
    task = await task_named(board.runtime, "Wait")
    await board.runtime.wait(board.stage.session_id)  # what ended before may still be told
    child = await board.json(f"/v1/sessions/{task.session_id}/why")
    parent = await board.json(f"/v1/sessions/{board.stage.session_id}/why")
    unknown = await board.get(f"/v1/sessions/{UNKNOWN}/why")

    assert child["sessionID"] == task.session_id
    assert child["code"] == "tool"
    assert "gate" in child["sentence"]
    assert parent["code"] == "tasks"
    assert parent["on"] == [task.session_id]
    assert unknown.status == 404
    assert unknown.json["name"] == "NotFoundError"


@pytest.mark.spec("H-03")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_changing_methods_are_refused_by_the_status_api(board: StageClient, method: str) -> None:
    for path in ("/v1/tasks", f"/v1/tasks/{UNKNOWN}", "/v1/events", "/v1/health"):
        told = await board.request(method, path, headers=board.authorization)
        assert told.status == 405, path
        assert told.json["name"] == "MethodNotAllowedError", path
        assert "GET" in told.headers["allow"]
