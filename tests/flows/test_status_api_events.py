"""The status API's stream of events. Each scenario of the source is a test; then cursors, resets and ends."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.shape import encode
from asyncagents.llm.scripted import call, fail, say
from asyncagents.server.http.sse import RETRY_MS
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.testing.inside import inside
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    allow_all,
    launch_task,
    task_named,
    wait_until_quiet,
)
from tests.support.http.client import EventStream, open_http_client
from tests.support.http.server import StageClient, serve_delegation, serve_runtime
from tests.support.runtime import open_runtime
from tests.support.tool import ECHO, Gate
from tests.support.wait import wait_until

SCENES: RequestScript = {
    "go": [[launch_task("A", "a")], [say("Off.")]],
    "bad": [[launch_task("B", "b")], [say("Off.")]],
    "clear": [[call("asyncagents_clear")], [say("Cleared.")]],
    "a": [[call("echo", text="x"), call("gate")], [say("A is 1.")]],
    "b": [[fail("the model is on fire")]],
    "More?": [[call("gate")], [say("A is 2.")]],
}


def named(name: str) -> Any:
    return lambda data: data["description"] == name


async def said(at: StageClient, prompt: str) -> None:
    """It is answered, and all that came of it has come to rest."""
    await at.stage.prompt(prompt)
    await wait_until_quiet(at.runtime, at.stage.session_id)


async def fresh(at: StageClient) -> Any:
    async with at.stream() as listener:
        return (await listener.until("snapshot")).data


def applied(listener: EventStream) -> dict[str, Any]:
    """What a dashboard shows that believes all it was told."""
    tasks: dict[str, Any] = {}
    for each in listener.frames:
        match each.type:
            case "snapshot":
                tasks = {task["sessionID"]: task for task in each.data["tasks"]}
            case "task.removed":
                tasks.pop(each.data["sessionID"], None)
            case "heartbeat" | "reset":
                pass
            case _:
                tasks[each.data["sessionID"]] = each.data
    return tasks


@pytest.mark.spec("H-06")
async def test_sends_snapshot_on_initial_connection(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        empty = await fresh(at)
        await said(at, "bad")
        await at.stage.prompt("go")
        await gate.until_started()
        async with at.stream() as listener:
            snapshot = await listener.until("snapshot")
            first, hint = listener.frames[0], listener.retry
        page, stats = await at.json("/v1/tasks"), await at.json("/v1/stats")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)

    assert empty["tasks"] == []
    assert empty["stats"]["totalTasks"] == 0
    assert first == snapshot
    assert snapshot.data == {"tasks": page["tasks"], "stats": stats}
    assert [task["status"] for task in snapshot.data["tasks"]] == ["running", "error"]
    assert bool(snapshot.id) is True
    assert hint == RETRY_MS


@pytest.mark.spec("H-06")
async def test_sends_task_created_when_new_task_launches(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        await listener.until("snapshot")
        await at.stage.prompt("go")
        created = await listener.until("task.created")
        task = await task_named(at.runtime, "A")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)

    keys = {"sessionID", "parentSessionID", "parentMessageID", "description", "prompt", "agent", "batchId"}
    assert created.data.keys() >= keys | {"status", "startedAt", "resumeCount", "isForked", "parentAgent"}
    assert created.data["sessionID"] == task.session_id
    assert created.data["status"] == "running"
    assert created.data["description"] == "A"
    assert created.data["prompt"] == "a"


@pytest.mark.spec("H-06")
async def test_sends_task_updated_when_task_progress_changes(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        await at.stage.prompt("go")
        await gate.until_started()
        updated = await listener.until("task.updated", lambda data: data["progress"]["toolCalls"] == 2)
        known = encode(await task_named(at.runtime, "A"))
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)

    assert encode(updated.data) == known
    assert updated.data["progress"]["lastTools"] == ["echo", "gate"]
    assert updated.data["status"] == "running"


@pytest.mark.spec("H-06")
async def test_a_resumed_task_is_sent_as_updated(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        gate.go.set()
        await said(at, "go")
        await listener.until("task.completed")
        gate.go.clear()
        await at.runtime.tasks.resume((await task_named(at.runtime, "A")).session_id, "More?")
        resumed = await listener.until("task.updated", lambda data: data["status"] == "resumed")
        gate.go.set()
        again = await listener.until("task.completed")
        await wait_until_quiet(at.runtime, at.stage.session_id)

    assert resumed.data["description"] == "A"
    assert resumed.data["resumeCount"] == 1
    assert again.data["result"] == "A is 2."
    assert again.data["resumeCount"] == 1
    assert [each.type for each in listener.frames].count("task.created") == 1


@pytest.mark.spec("H-06")
async def test_sends_task_completed_when_task_finishes_successfully(tmp_path: Path) -> None:
    gate = Gate("gate")
    gate.go.set()
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        await listener.until("snapshot")
        await said(at, "go")
        completed = await listener.until("task.completed")
        kinds = [each.type for each in listener.frames]
        detail = await at.json(f"/v1/tasks/{completed.data['sessionID']}")

    assert completed.data == detail
    assert detail["status"] == "completed"
    assert detail["result"] == "A is 1."
    assert detail["description"] == "A"
    assert detail["completedAt"]
    assert kinds.index("task.created") < kinds.index("task.completed")


@pytest.mark.spec("H-06")
async def test_sends_task_error_when_task_fails(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at, at.stream() as listener:
        await listener.until("snapshot")
        await said(at, "bad")
        failed = await listener.until("task.error")
        detail = await at.json(f"/v1/tasks/{failed.data['sessionID']}")

    assert failed.data == detail
    assert detail["status"] == "error"
    assert "the model is on fire" in detail["error"]


@pytest.mark.spec("H-06")
async def test_sends_task_cancelled_when_task_is_cancelled(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        await at.stage.prompt("go")
        await gate.until_started()
        await at.runtime.tasks.cancel((await task_named(at.runtime, "A")).session_id)
        cancelled = await listener.until("task.cancelled")
        await wait_until_quiet(at.runtime, at.stage.session_id)

    assert cancelled.data["description"] == "A"
    assert cancelled.data["status"] == "cancelled"
    assert "completedAt" in cancelled.data


@pytest.mark.spec("H-06")
async def test_sends_task_removed_when_a_task_is_cleared(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at, at.stream() as listener:
        await said(at, "bad")
        ended = await listener.until("task.error")
        await said(at, "clear")
        removed = await listener.until("task.removed")
        empty = await fresh(at)

    assert removed.data == {"sessionID": ended.data["sessionID"]}
    assert empty["tasks"] == []


ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.spec("H-06")
async def test_sends_heartbeat_every_30_seconds(tmp_path: Path) -> None:
    """Thirty is what a server has unless it is told another silence; here it is told a short one."""
    async with serve_delegation(tmp_path, {}, silence=0.02) as at, at.stream() as listener:
        first, second = await listener.until("heartbeat"), await listener.until("heartbeat")
        kinds = [each.type for each in listener.frames]

    assert kinds == ["snapshot", "heartbeat", "heartbeat"]
    assert first.data.keys() == {"ts"}
    assert ISO.fullmatch(first.data["ts"])
    assert first.data["ts"] < second.data["ts"]
    assert listener.id == listener.frames[0].id, "a heartbeat is no news: a client that returns resumes there"


@pytest.mark.spec("H-06")
async def test_sends_fresh_snapshot_on_reconnection(tmp_path: Path) -> None:
    gate = Gate("gate")
    gate.go.set()
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        async with at.stream() as listener:
            before = await listener.until("snapshot")
        await said(at, "go")
        async with at.stream(headers={"last-event-id": before.id}) as listener:
            after = await listener.until("snapshot")
            await said(at, "bad")
            news = await listener.until("task.error")

    assert listener.frames[0] == after
    assert before.data["tasks"] == []
    assert [task["description"] for task in after.data["tasks"]] == ["A"]
    assert [each.data["description"] for each in listener.frames[1:]] == ["B"] * (len(listener.frames) - 1)
    assert news.data["description"] == "B"
    assert news.id != after.id


@pytest.mark.spec("H-06")
async def test_a_cursor_resumes_without_a_snapshot_from_where_it_was(tmp_path: Path) -> None:
    gate = Gate("gate")
    gate.go.set()
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at:
        async with at.stream() as listener:
            await said(at, "go")
            seen = await listener.until("task.completed")
        await said(at, "bad")
        async with at.stream(f"/v1/events?after={seen.id}") as later:
            ended = await later.until("task.error")

    assert [each.type for each in later.frames] == ["task.created", "task.error"]
    assert ended.data["description"] == "B"


@pytest.mark.spec("H-06")
async def test_a_cursor_is_good_after_a_restart(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at, at.stream() as before:
        cursor = (await before.until("snapshot")).id
        await said(at, "bad")
    async with serve_delegation(tmp_path, SCENES) as at, at.stream(f"/v1/events?after={cursor}") as after:
        await after.until("task.error")
        assert list(applied(after).values()) == (await fresh(at))["tasks"]


@pytest.mark.spec("H-06")
async def test_a_reconnecting_browser_with_a_cursor_gets_a_fresh_snapshot(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at:
        async with at.stream() as listener:
            cursor = (await listener.until("snapshot")).id
        path, known = f"/v1/events?after={cursor}", {"last-event-id": cursor}
        async with at.stream(path, headers=known) as listener:
            assert await listener.until("snapshot") == listener.frames[0]


@pytest.mark.spec("H-06")
async def test_a_cursor_of_another_store_gets_a_reset_and_a_snapshot(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with serve_delegation(there, SCENES) as at, at.stream() as listener:
        foreign = (await listener.until("snapshot")).id
    async with serve_delegation(here, SCENES) as at, at.stream(f"/v1/events?after={foreign}") as listener:
        snapshot = await listener.until("snapshot")
        await said(at, "bad")
        await listener.until("task.error")

    assert [each.type for each in listener.frames[:2]] == ["reset", "snapshot"]
    assert listener.frames[0].data == {}
    assert snapshot.id.split("-")[0] != foreign.split("-")[0]


@pytest.mark.spec("H-06")
async def test_a_cursor_ahead_of_its_store_gets_a_reset_and_a_snapshot(tmp_path: Path) -> None:
    """As after a backup was brought back."""
    async with serve_delegation(tmp_path, SCENES) as at:
        async with at.stream() as listener:
            epoch = (await listener.until("snapshot")).id.split("-")[0]
        async with at.stream(f"/v1/events?after={epoch}-0-{10**17}") as listener:
            await listener.until("snapshot")
    assert [each.type for each in listener.frames] == ["reset", "snapshot"]


@pytest.mark.spec("H-06")
async def test_a_cursor_older_than_forgotten_rows_gets_a_reset_and_a_snapshot(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at:
        async with at.stream() as listener:
            old = (await listener.until("snapshot")).id
        await said(at, "bad")
        await said(at, "clear")
        await inside(at.runtime).store.forget_deleted(2**62)
        async with at.stream(f"/v1/events?after={old}") as listener:
            await listener.until("snapshot")

    assert [each.type for each in listener.frames] == ["reset", "snapshot"]
    assert applied(listener) == {}


@pytest.mark.spec("H-06")
@pytest.mark.parametrize(
    "after", ["", "x", "1", "a-b-c", "a-0--1", "a-0-9999999999999999999", "%00", "a-0-1&after=a-0-1"]
)
async def test_an_invalid_cursor_is_refused_before_anything_is_streamed(tmp_path: Path, after: str) -> None:
    async with serve_delegation(tmp_path, {}) as at:
        told = await at.get(f"/v1/events?after={after}")
    assert told.status == 400
    assert told.json["name"] == "BadRequest"


@pytest.mark.spec("H-06")
async def test_applied_events_yield_the_same_tasks_as_a_fresh_snapshot(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, ECHO, gate.tool) as at, at.stream() as listener:
        await said(at, "bad")
        await said(at, "clear")
        await at.stage.prompt("go")
        await gate.until_started()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)
        await said(at, "bad")
        await listener.until("task.error", lambda data: len(applied(listener)) == 2)
        snapshot = await fresh(at)

    assert list(applied(listener).values())[::-1] == snapshot["tasks"]


@pytest.mark.spec("H-06")
async def test_a_listener_gets_events_of_tasks_in_another_process(tmp_path: Path) -> None:
    """The server's runtime only looks; the work is done by another one on the same data."""
    async with (
        open_runtime(tmp_path, model=RequestScriptModel(SCENES), serve=False) as looking,
        serve_runtime(looking, tmp_path) as caller,
        caller.stream() as listener,
    ):
        await listener.until("snapshot")
        async with open_runtime(
            tmp_path, model=RequestScriptModel(SCENES), delegation=True, policy=allow_all
        ) as working:
            session = await working.create_session(directory=tmp_path)
            await working.prompt(session.id, "bad")
            await wait_until_quiet(working, session.id)
        failed = await listener.until("task.error")
    assert failed.data["description"] == "B"


@pytest.mark.spec("H-02", "H-06")
async def test_a_stream_ends_whole_when_the_server_stops(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=RequestScriptModel({})) as runtime, AsyncExitStack() as server:
        listing = await server.enter_async_context(open_server(runtime, tmp_path, ServerOptions(port=0)))
        async with (
            open_http_client(listing) as caller,
            caller.stream() as listener,
            asyncio.TaskGroup() as group,
        ):
            await listener.until("snapshot")
            group.create_task(server.aclose())
            heard = await listener.until_end()
    assert [each.type for each in heard] == ["snapshot"]


@pytest.mark.spec("H-06")
async def test_listeners_that_disconnect_leave_no_subscription(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES) as at:
        for number in range(30):
            async with at.stream() as listener:
                if number % 3:
                    await listener.until("snapshot")
        board = at.runtime.board
        await wait_until(lambda: not board._subscribers)  # no event tells that somebody hung up
        await said(at, "bad")
        assert [task["status"] for task in (await fresh(at))["tasks"]] == ["error"]


@pytest.mark.spec("H-06")
async def test_line_breaks_in_a_task_description_forge_no_event(tmp_path: Path) -> None:
    name = "A\n\nevent: task.removed\r\ndata: {}\r\r\u2028id: 7"
    scenes: RequestScript = {"go": [[launch_task(name, "a")], [say("Off.")]]}
    async with serve_delegation(tmp_path, scenes) as at, at.stream() as listener:
        await listener.until("snapshot")
        await said(at, "go")
        ended = await listener.until("task.completed")
        (task,) = (await at.json("/v1/tasks"))["tasks"]

    assert {each.type for each in listener.frames} <= {
        "snapshot",
        "task.created",
        "task.updated",
        "task.completed",
    }
    assert ended.data == task
    assert ended.id.count("-") >= 2
