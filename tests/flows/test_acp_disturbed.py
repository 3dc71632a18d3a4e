"""An editor meets failed turns, other clients, turns that it did not prompt, and closes in a fan-out."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.task.view import BackgroundTask
from asyncagents.llm.scripted import call, fail, say
from asyncagents.remote.json_rpc import INTERNAL_ERROR, INVALID_PARAMS
from tests.support.delegation import RequestScript, fire_task, open_delegation_stage
from tests.support.editor import open_editor
from tests.support.http.server import serve_runtime
from tests.support.runtime import open_stage
from tests.support.tool import Gate
from tests.support.wait import wait_until

PARTS = [f"part {number}" for number in range(6)]
FAN_OUT: RequestScript = {
    "fan out": [[fire_task(each, each) for each in PARTS], [say("On their way.")], [say("All are done.")]],
    **{each: [[call("gate")], [say(f"Done: {each}.")]] for each in PARTS},
}


@pytest.mark.spec("X-03", "D-02")
async def test_all_tasks_of_a_fan_out_end_though_the_editor_has_left(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    async with open_delegation_stage(data, FAN_OUT, gate.tool) as at, serve_runtime(at.runtime, data):
        async with open_editor(data) as editor:
            session_id = await editor.new_session(tmp_path)
            await editor.prompt(session_id, "fan out")
            await wait_until(lambda: gate.runs == len(PARTS))
        gate.go.set()

        async def find_ended() -> tuple[BackgroundTask, ...]:
            tasks = await at.runtime.tasks.list(session_id)  # type: ignore[arg-type]
            return tasks if all(each.completed_at for each in tasks) else ()

        ended = await wait_until(find_ended)
        async with open_editor(data) as late:
            await late.request("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
            await late.until(lambda: "All are done." in late.text())

    assert sorted(each.result or "" for each in ended) == [f"Done: {each}." for each in PARTS]


@pytest.mark.spec("X-03", "S-12")
async def test_a_prompt_during_a_turn_that_a_notice_started_returns_with_its_answer(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: RequestScript = {
        "launch": [[fire_task("Count", "count")], [say("Launched.")], [call("gate")], [say("Both.")]],
        "count": [[say("Three.")]],
    }
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "launch")
        await gate.until_started()
        queued = asyncio.ensure_future(editor.prompt(session_id, "more"))

        async def has_arrived() -> bool:
            entries = await at.runtime.messages(session_id)  # type: ignore[arg-type]
            return any("more" in str(each.parts) for each in entries)

        await wait_until(has_arrived)
        gate.go.set()
        stopped = await queued

    assert stopped == "end_turn"
    assert editor.text().endswith("Both.")


@pytest.mark.spec("X-03")
async def test_two_editors_may_prompt_one_session_at_the_same_time(tmp_path: Path) -> None:
    data, script = tmp_path / "data", {"hi": [[say("Hello.")]] * 60}
    async with (
        open_stage(data, script) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as first,
        open_editor(data) as second,
    ):
        session_id = await first.new_session(tmp_path)
        await second.request("session/resume", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        prompts = [each.prompt(session_id, "hi") for each in (first, second) for _ in range(4)]
        stopped = await asyncio.gather(*prompts)

    assert set(stopped) == {"end_turn"}


@pytest.mark.spec("X-03")
async def test_a_failed_turn_shows_the_reason_and_no_names_of_the_program(tmp_path: Path) -> None:
    data, script = tmp_path / "data", {"hi": [[fail("no luck today", retryable=False)]]}
    async with (
        open_stage(data, script) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        error = await editor.error(
            "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hi"}]
        )

    assert error.code == INTERNAL_ERROR
    assert str(error) == "the turn failed: no luck today"
    assert editor.text() == "\n\nThe answer failed: no luck today"


async def test_a_path_that_is_too_long_is_no_folder(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as editor:
        error = await editor.error("session/new", cwd="/" + "x" * 5_000, mcpServers=[])

    assert error.code == INVALID_PARAMS
    assert "there is no such folder" in str(error)
