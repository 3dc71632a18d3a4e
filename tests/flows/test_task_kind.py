"""Sync and background tasks side by side: what is counted, what is listed, and by which name."""

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from asyncagents.client import BoardSnapshot, open_client
from asyncagents.domain.conversation.part import ToolCompleted
from asyncagents.llm.scripted import call, say
from asyncagents.store.postgres.migrate import load_scripts, migrate
from tests.support.delegation import (
    RequestScript,
    call_task,
    call_with_id,
    fire_task,
    hidden_text,
    launch_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_named,
    visible_texts,
    wait_until_quiet,
)
from tests.support.http.server import serve_delegation
from tests.support.postgres.database import Server, database
from tests.support.tool import ECHO

MIXED: RequestScript = {
    "go": [
        [fire_task("A", "a"), fire_task("B", "b"), call_task("S", "s")],
        [say("Waiting.")],
        [say("Ok.")],
        [say("Ok.")],
    ],
    "list": [[call("asyncagents_list")], [say("Listed.")]],
    **{name: [[say(f"{name} is done.")]] for name in "abs"},
}


@pytest.mark.spec("Z-03", "T-12", "T-10")
async def test_a_sync_task_counts_in_no_progress_and_in_no_list_of_background_tasks(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, MIXED) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        told = await read_notices(at)
        await at.prompt("list")
        listed = (await at.states())[-1]
        kinds = {task.description: task.kind for task in await at.runtime.tasks.list(at.session_id)}
    assert [text.splitlines()[-1] for text in visible_texts(told[-1])][-1] == "Task Progress: 2/2"
    assert "\nAll 2 tasks finished.\n" in hidden_text(told[-1])
    assert kinds == {"A": "background", "B": "background", "S": "sync"}
    assert isinstance(listed, ToolCompleted)
    assert listed.title == "2 tasks"
    assert len(listed.output.splitlines()) == 2


async def test_one_task_is_listed_and_noticed_in_the_singular(tmp_path: Path) -> None:
    scenes: RequestScript = {**MIXED, "go": [[launch_task("A", "a")], [say("Waiting.")], [say("Ok.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        (told,) = await read_notices(at)
        await at.prompt("list")
        listed = (await at.states())[-1]
    assert isinstance(listed, ToolCompleted)
    assert listed.title == "1 task"
    assert "\n1 task finished.\n" in hidden_text(told)


@pytest.mark.spec("Z-03", "T-07")
async def test_a_cancel_of_a_batch_covers_background_tasks_only(tmp_path: Path) -> None:
    scenes: RequestScript = {
        **MIXED,
        "cancel": [
            lambda request: [call("asyncagents_cancel", batch=_batch(request_outputs(request)[0]))],
            [say("Cancelled.")],
        ],
        "go": [[launch_task("A", "a"), call_task("S", "s")], [say("Waiting.")], [say("Ok.")]],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("cancel")
        told = request_outputs(at.model.requests[-1])[-1]
    assert '"A" completed' in told
    assert '"S"' not in told


def _batch(text: str) -> str:
    return text.partition("batch: ")[2].partition("\n")[0]


@pytest.mark.spec("Z-03", "H-03")
async def test_the_status_api_and_its_client_show_sync_tasks_when_they_are_asked_for(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, MIXED) as at:
        await at.stage.prompt("go")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        pages = {kind: await at.json("/v1/tasks", kind=kind) for kind in ("background", "sync", "all")}
        usual = await at.json("/v1/tasks")
        nonsense = await at.get("/v1/tasks", kind="both")
        stats, health = await at.json("/v1/stats"), await at.json("/v1/health")
        waited = (await task_named(at.runtime, "S")).session_id
        one = await at.json(f"/v1/tasks/{waited}")
        group = await at.json(f"/v1/task-groups/{one['batchId']}")
        tree = await at.request("GET", f"/v1/sessions/{at.stage.session_id}/tasks", headers=at.authorization)
        snapshots = [await _snapshot(at, query) for query in ("", "?kind=sync", "?kind=all")]
        async with open_client(data=tmp_path) as client:
            page = await client.tasks.page(kind="sync")
            board = client.board("all")
            first = await anext(board)
            await board.aclose()
    shown = {kind: _shown(page["tasks"]) for kind, page in pages.items()}
    assert shown == {"background": ["A", "B"], "sync": ["S"], "all": ["A", "B", "S"]}
    assert {kind: page["total"] for kind, page in pages.items()} == {"background": 2, "sync": 1, "all": 3}
    assert usual == pages["background"]
    assert nonsense.status == 400
    assert stats["totalTasks"] == 2
    assert stats["byStatus"]["completed"] == 2
    assert health["taskCount"] == 2
    assert one["kind"] == "sync"
    assert one["description"] == "S"
    assert _shown(group["tasks"]) == ["A", "B", "S"]
    assert group["stats"]["total"] == 2
    assert {task["description"]: task["kind"] for task in tree.json}["S"] == "sync"
    assert snapshots == [["A", "B"], ["S"], ["A", "B", "S"]]
    assert [task.description for task in page.tasks] == ["S"]
    assert isinstance(first, BoardSnapshot)
    assert len(first.tasks) == 3


async def _snapshot(at: Any, query: str) -> list[str]:
    async with at.stream(f"/v1/events{query}") as stream:
        frame = await stream.until("snapshot")
    assert frame.data["stats"]["totalTasks"] == 2
    return _shown(frame.data["tasks"])


def _shown(tasks: list[dict[str, Any]]) -> list[str]:
    return sorted(task["description"] for task in tasks)


async def test_a_task_whose_session_was_deleted_stays_in_every_list_as_gone(tmp_path: Path) -> None:
    scenes: RequestScript = {**MIXED, "go": [[launch_task("A", "a")], [say("Waiting.")], [say("Ok.")]]}
    async with serve_delegation(tmp_path, scenes) as at:
        await at.stage.prompt("go")
        await wait_until_quiet(at.runtime, at.stage.session_id)
        child = (await task_named(at.runtime, "A")).session_id
        async with at.stream() as stream:
            await stream.until("snapshot")
            await at.runtime.delete_session(child)
            told = await stream.until("task.updated")
        (listed,) = await at.runtime.tasks.list(at.stage.session_id)
        (shown,) = (await at.json("/v1/tasks"))["tasks"]
        await at.stage.prompt("list")
        (said,) = request_outputs(at.stage.model.requests[-1])[-1:]
    assert listed.session_id == child
    assert listed.gone is True
    assert listed.result == "a is done."
    assert shown["sessionID"] == child
    assert shown["gone"] is True
    assert told.data["sessionID"] == child
    assert told.data["gone"] is True
    assert said.startswith(f"{child} (gone) completed @general")


@pytest.mark.spec("Z-05", "T-08")
async def test_a_resumed_task_reports_its_last_run_and_separate_totals(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [
            [call_task("A", "a")],
            call_with_id("task", description="A again", prompt="more", subagent_type="general"),
            call_with_id("asyncagents_output"),
            [say("Ok.")],
        ],
        "a": [[call("echo", text="1"), call("echo", text="2")], [say("First.")]],
        "more": [[say("Second.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, ECHO) as at:
        await at.prompt("go")
        task = await task_named(at.runtime, "A")
        *_, last = await at.messages()
    first, second, read = request_outputs(at.model.requests[-1])
    assert last.text == "Ok."
    assert "\ntool_calls: 2 (echo 2)\n" in first
    assert "total" not in first
    assert "\ntool_calls: 0\n" in second
    assert "\nruns: 2\ntotal_tool_calls: 2 (echo 2)\n" in second
    assert _tokens("total_tokens", second) == _tokens("tokens", first) + _tokens("tokens", second)
    assert second.partition("<task_metadata>")[2] == read.partition("<task_metadata>")[2]
    assert task.progress is not None
    assert task.totals is not None
    assert task.progress.tool_calls == 0
    assert task.progress.tokens.input == _tokens("tokens", second)
    assert task.totals.runs == 2
    assert task.totals.tool_calls == 2
    assert task.totals.tokens.input == _tokens("total_tokens", second)


def _tokens(name: str, told: str) -> int:
    """Of the input."""
    (count,) = re.findall(rf"^{name}: (\d+) input", told, re.MULTILINE)
    return int(count)


@pytest.mark.spec("Z-03", "X-11")
async def test_a_postgres_migration_derives_the_kind_of_older_tasks(postgres_server: Server) -> None:
    rows = {"a": b'{"description":"x"}', "b": b'{"background":false}', "c": b'{"background":true}', "d": b"{"}
    async with database(postgres_server) as dsn:
        connection = await asyncpg.connect(dsn)
        try:
            await migrate(connection, epoch="e", scripts=load_scripts()[:2])
            for name, body in rows.items():
                await connection.execute(
                    "INSERT INTO task (id, parent_id, batch, live, crowd, body, version, rev) "
                    "VALUES ($1, 'p', 'b', 0, 20, $2, 1, 3)",
                    name,
                    body,
                )
            await migrate(connection, epoch="e", scripts=load_scripts())
            found = await connection.fetch("SELECT id, kind, body FROM task ORDER BY id")
        finally:
            await connection.close()
    assert {row["id"]: row["kind"] for row in found} == {
        "a": "background",
        "b": "sync",
        "c": "background",
        "d": "background",
    }
    assert [bytes(row["body"]) for row in found] == [
        b'{"description":"x","gone":true}',
        b'{"background":false,"gone":true}',
        b'{"background":true,"gone":true}',
        b"{",
    ]
