"""An editor drives sessions by the Agent Client Protocol: prompts, updates, asks, children, replay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import PermissionAsked, SessionStatus
from asyncagents.domain.id import SessionId
from asyncagents.llm.scripted import Script, call, say, think
from asyncagents.remote.json_rpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from tests.support.delegation import RequestScript, call_with_id, launch_task, open_delegation_stage
from tests.support.editor import ALLOW_ONCE, CANCELLED, Editor, open_editor
from tests.support.http.server import serve_runtime
from tests.support.runtime import Stage, open_stage
from tests.support.tool import Gate, build_pending_tool
from tests.support.wait import PATIENCE

HELLO: Script = {"hi": [[think("Hm."), say("Hel", "lo.")]], "again": [[say("Again.")]]}
TODOS = [
    {"content": "Look", "status": "completed", "priority": "high"},
    {"content": "Leap", "status": "in_progress", "priority": "medium"},
    {"content": "Sleep", "status": "cancelled", "priority": "low"},
]
CODING: Script = {
    "plan": [[call("todowrite", todos=TODOS)], [say("Planned.")], [say("Still planned.")]],
    "write": [[call("write", filePath="a.txt", content="new\n")], [say("Written.")]],
    "run": [[call("bash", command="echo out", description="Say out")], [say("Ran.")]],
}


@asynccontextmanager
async def open_project(
    tmp_path: Path, script: Script, **permission: Any
) -> AsyncIterator[tuple[Stage, Path]]:
    """Serve a runtime with the coding tools in a project."""
    data, project = tmp_path / "data", tmp_path / "project"
    project.mkdir(exist_ok=True)
    coding = Config(data_dir=data, permission=permission)
    async with (
        open_stage(data, script, coding=coding, directory=project) as at,
        serve_runtime(at.runtime, data),
    ):
        yield at, project


@pytest.mark.spec("X-03")
async def test_a_prompt_streams_thoughts_and_text_and_returns_its_stop_reason(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        stopped = await editor.prompt(session_id, "hi")

    assert stopped == "end_turn"
    assert editor.text("agent_thought_chunk") == "Hm."
    assert editor.text() == "Hello."
    assert "user_message_chunk" not in editor.kinds(), "the client has the text of its own prompt"


@pytest.mark.spec("X-03")
async def test_a_request_before_initialize_is_refused(tmp_path: Path) -> None:
    async with open_editor(tmp_path, initialized=False) as editor:
        error = await editor.error("session/new", cwd=str(tmp_path), mcpServers=[])

    assert error.code == INVALID_REQUEST


@pytest.mark.spec("X-03")
async def test_an_unknown_method_is_not_found(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as editor:
        error = await editor.error("session/dance")

    assert error.code == METHOD_NOT_FOUND


@pytest.mark.spec("X-03")
async def test_meta_of_a_client_never_replaces_a_parameter(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (at, project), open_editor(tmp_path / "data") as editor:
        meta = {"cwd": "/tmp", "session_id": "ses_evil", "sessionId": "ses_evil"}
        created = await editor.request("session/new", cwd=str(project), mcpServers=[], _meta=meta)
        session = await at.runtime.session(created["sessionId"])

    assert session.directory == str(project)


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder"])
async def test_a_session_needs_an_absolute_folder_that_exists(tmp_path: Path, cwd: str) -> None:
    async with open_project(tmp_path, HELLO), open_editor(tmp_path / "data") as editor:
        error = await editor.error("session/new", cwd=cwd, mcpServers=[])

    assert error.code == INVALID_PARAMS
    assert cwd in str(error)


@pytest.mark.spec("O-04", "X-03")
async def test_a_todo_write_is_a_plan_and_a_cancelled_todo_is_completed_in_it(tmp_path: Path) -> None:
    async with open_project(tmp_path, CODING) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        await editor.prompt(session_id, "plan")

    (plan,) = editor.of_kind("plan")
    assert [entry["status"] for entry in plan["entries"]] == ["completed", "in_progress", "completed"]
    assert [entry["priority"] for entry in plan["entries"]] == ["high", "medium", "low"]
    assert "tool_call" not in editor.kinds(), "the plan shows it"


@pytest.mark.spec("X-03")
async def test_a_write_shows_its_kind_location_and_diff(tmp_path: Path) -> None:
    async with open_project(tmp_path, CODING) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        await editor.prompt(session_id, "write")

    last = editor.of_kind("tool_call_update")[-1]
    assert last["status"] == "completed"
    assert last["kind"] == "edit"
    assert last["locations"] == [{"path": str(project / "a.txt")}]
    assert last["content"] == [{"type": "diff", "path": str(project / "a.txt"), "newText": "new\n"}]


@pytest.mark.spec("A-04", "X-03")
async def test_a_permission_is_asked_with_its_durable_id_and_the_answer_runs_the_call(tmp_path: Path) -> None:
    async with (
        open_project(tmp_path, CODING, bash="ask") as (_, project),
        open_editor(tmp_path / "data") as editor,
    ):
        editor.answers["session/request_permission"] = lambda params: ALLOW_ONCE
        session_id = await editor.new_session(project)
        await editor.prompt(session_id, "run")

    ((_, asked),) = editor.requests
    assert asked["toolCall"]["title"] == "echo out"
    assert asked["toolCall"]["_meta"]["asyncagents"]["askId"].startswith("per_")
    assert {each["kind"] for each in asked["options"]} >= {"allow_once", "reject_once"}
    assert "out" in str(editor.of_kind("tool_call_update")[-1]["content"])


@pytest.mark.spec("A-04", "X-03")
async def test_a_cancelled_permission_request_answers_nothing_and_is_asked_again_on_load(
    tmp_path: Path,
) -> None:
    async with open_project(tmp_path, CODING, bash="ask") as (at, project):
        async with open_editor(tmp_path / "data") as editor:
            editor.answers["session/request_permission"] = lambda params: CANCELLED
            session_id = await editor.new_session(project)
            prompted = asyncio.ensure_future(editor.prompt(session_id, "run"))
            await editor.until(lambda: bool(editor.requests))
            still_open = await at.runtime.asks()
            prompted.cancel()
        async with open_editor(tmp_path / "data") as again:
            again.answers["session/request_permission"] = lambda params: ALLOW_ONCE
            await again.request("session/load", sessionId=session_id, cwd=str(project), mcpServers=[])
            await again.until(lambda: "Ran." in again.text())

    assert len(still_open) == 1
    first, second = (each.requests[0][1]["toolCall"]["_meta"] for each in (editor, again))
    assert first["asyncagents"]["askId"] == second["asyncagents"]["askId"]


@pytest.mark.spec("A-04")
async def test_an_ask_that_is_answered_elsewhere_is_withdrawn_from_the_client(tmp_path: Path) -> None:
    withdrawn = asyncio.Event()

    async def wait_for_withdrawal(params: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()

    async with (
        open_project(tmp_path, CODING, bash="ask") as (at, project),
        open_editor(tmp_path / "data") as editor,
    ):
        editor.answers["session/request_permission"] = wait_for_withdrawal
        session_id = await editor.new_session(project)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "run"))
        await editor.until(lambda: bool(editor.requests))
        (waiting,) = await at.runtime.asks()
        await at.runtime.answer(str(waiting.call.ask_id), "once")
        stopped = await prompted
        await withdrawn.wait()

    assert stopped == "end_turn"


@pytest.mark.spec("X-03")
async def test_a_load_replays_the_conversation_once_and_a_resume_does_not(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project):
        async with open_editor(tmp_path / "data") as editor:
            session_id = await editor.new_session(project)
            await editor.prompt(session_id, "hi")
        known = {"sessionId": session_id, "cwd": str(project), "mcpServers": []}
        async with open_editor(tmp_path / "data") as loaded:
            await loaded.request("session/load", **known)
            stopped = await loaded.prompt(session_id, "again")
        async with open_editor(tmp_path / "data") as resumed:
            await resumed.request("session/resume", **known)
            at_once = resumed.text()

    assert loaded.text("user_message_chunk") == "hi"
    assert loaded.text() == "Hello.Again."
    assert stopped == "end_turn"
    assert at_once == ""


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_is_opened_again_with_the_link_it_was_begun_with(tmp_path: Path, method: str) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        link = tmp_path / "link"
        link.symlink_to(project)
        session_id = await editor.new_session(link)
        await editor.request(method, sessionId=session_id, cwd=str(link), mcpServers=[])
        listed = await editor.request("session/list", cwd=str(link))

    assert session_id in [each["sessionId"] for each in listed["sessions"]]


async def test_a_session_of_another_folder_is_refused_with_the_folder(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        error = await editor.error("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])

    assert str(project) in str(error)


@pytest.mark.spec("X-03")
async def test_a_cancel_ends_the_turn_and_the_prompt_returns_cancelled(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {"wait": [[call("gate")], [say("Never.")]]}
    data = tmp_path / "data"
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        await editor.notify("session/cancel", sessionId=session_id)
        stopped = await prompted

    assert stopped == "cancelled"


FAN_OUT: RequestScript = {
    "launch": [[launch_task("Count", "count")], [say("Launched.")], [say("Counted.")]],
    "count": [[call("gate")], [say("Three.")]],
}


@pytest.mark.spec("X-03", "T-12")
async def test_a_turn_that_a_notice_starts_is_streamed_after_the_prompt_has_returned(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    async with (
        open_delegation_stage(data, FAN_OUT, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        stopped = await editor.prompt(session_id, "launch")
        before = editor.text()
        gate.go.set()
        await editor.until(lambda: "Counted." in editor.text())

    assert stopped == "end_turn"
    assert before == "Launched."
    kinds = editor.kinds(session_id)
    notice = kinds.index("user_message_chunk")
    assert "finished" in editor.of_kind("user_message_chunk")[0]["content"]["text"]
    assert "agent_message_chunk" in kinds[notice:], "the notice comes before the answer to it"
    ids = {update["messageId"] for update in editor.of_kind("agent_message_chunk")}
    assert len(ids) == 2, "each message has an id of its own"


GATHER: RequestScript = {
    "gather": [
        [launch_task("Count", "count")],
        call_with_id("asyncagents_output", block=True, timeout=600),
        [say("Gathered.")],
    ],
    "count": [[call("gate")], [say("Three.")]],
}


@pytest.mark.spec("X-03", "Z-01")
async def test_a_prompt_is_held_while_its_turn_waits_for_its_own_task(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    async with (
        open_delegation_stage(data, GATHER, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "gather"))
        await at.listener.until(
            SessionStatus,
            lambda event: event.session_id == session_id and isinstance(event.status, WaitingAsync),
        )
        was_held = not prompted.done()
        gate.go.set()
        stopped = await prompted

    assert was_held
    assert stopped == "end_turn"
    assert editor.text() == "Gathered."


@pytest.mark.spec("X-03", "Z-01")
async def test_a_prompt_returns_when_its_turn_waits_for_something_outside(tmp_path: Path) -> None:
    deploy, data = build_pending_tool("deploy"), tmp_path / "data"
    script: Script = {"ship": [[call("deploy")], [say("Shipped.")]]}
    async with (
        open_delegation_stage(data, script, deploy) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        stopped = await editor.prompt(session_id, "ship")
        (waiting,) = await at.runtime.open_calls(SessionId(session_id))
        await at.runtime.async_tools.submit_result(waiting.id, "v2 is live")
        await editor.until(lambda: editor.text() == "Shipped.")

    assert stopped == "end_turn"


@pytest.mark.spec("X-03", "D-02")
async def test_a_background_task_is_a_call_that_ends_with_the_task(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    async with (
        open_delegation_stage(data, FAN_OUT, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "launch")
        gate.go.set()
        await editor.until(lambda: "Counted." in editor.text())

    shown = [update for _, update in editor.updates if str(update.get("toolCallId", "")).startswith("task-")]
    assert shown[0]["sessionUpdate"] == "tool_call"
    assert shown[-1]["status"] == "completed"
    assert "Three." in str(shown[-1]["content"])


@pytest.mark.spec("X-03")
async def test_a_client_that_shows_subagents_gets_the_child_before_its_updates(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    async with (
        open_delegation_stage(data, FAN_OUT, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data, subagents={}) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "launch")
        gate.go.set()
        await editor.until(lambda: "Counted." in editor.text())

    announced = editor.of_kind("subagent_update")
    child_id = announced[0]["sessionId"]
    first = next(at for at, (about, _) in enumerate(editor.updates) if about == child_id)
    met = next(
        at for at, (_, update) in enumerate(editor.updates) if update["sessionUpdate"] == "subagent_update"
    )
    child_text = "".join(
        update["content"]["text"]
        for about, update in editor.updates
        if about == child_id and update["sessionUpdate"] == "agent_message_chunk"
    )
    assert met < first
    assert child_text == "Three."
    assert announced[-1]["state"]["state"] == "idle"


@pytest.mark.spec("X-03")
async def test_the_state_of_a_session_is_sent_around_every_activity_and_on_load(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (at, project):
        async with open_editor(tmp_path / "data") as editor:
            session_id = await editor.new_session(project)
            await editor.until(lambda: bool(_states(editor)))
            await editor.prompt(session_id, "hi")
            await editor.until(lambda: _states(editor)[-1] == "idle")
        async with open_editor(tmp_path / "data") as late:
            await late.request("session/resume", sessionId=session_id, cwd=str(project), mcpServers=[])
            await late.until(lambda: bool(_states(late)))
        assert isinstance(await at.runtime.status(at.session_id), Idle)

    assert _states(editor) == ["idle", "running", "idle"]
    assert _states(late) == ["idle"]


def _states(editor: Editor) -> list[str]:
    metas = [update.get("_meta") for update in editor.of_kind("session_info_update")]
    return [meta["asyncagents"]["state"] for meta in metas if meta]


@pytest.mark.spec("X-03")
async def test_sessions_are_listed_by_page_closed_and_deleted(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        ids = [await editor.new_session(project) for _ in range(2)]
        listed = await editor.request("session/list", cwd=str(project))
        await editor.request("session/close", sessionId=ids[0])
        closed = await editor.error(
            "session/prompt", sessionId=ids[0], prompt=[{"type": "text", "text": "hi"}]
        )
        await editor.request("session/delete", sessionId=ids[1])
        left = await editor.request("session/list", cwd=str(project))

    assert {each["sessionId"] for each in listed["sessions"]} >= set(ids)
    assert "load or resume" in str(closed)
    assert ids[1] not in {each["sessionId"] for each in left["sessions"]}


@pytest.mark.spec("X-03")
async def test_a_mode_and_a_model_are_chosen_for_the_next_prompt(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (at, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        await editor.request("session/set_mode", sessionId=session_id, modeId="plan")
        await editor.prompt(session_id, "hi")
        wrong = await editor.error(
            "session/set_config_option", sessionId=session_id, configId="agent", value="nope"
        )
        session = await at.runtime.session(session_id)  # type: ignore[arg-type]

    assert editor.of_kind("current_mode_update")[-1]["currentModeId"] == "plan"
    assert session.agent == "plan"
    assert "build" in str(wrong)


@pytest.mark.spec("X-03")
async def test_images_and_embedded_files_reach_the_model(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (at, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        (project / "notes.txt").write_text("from disk")
        blocks = [
            {"type": "text", "text": "hi"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///x/b.txt", "text": "embedded text"}},
            {"type": "resource_link", "uri": (project / "notes.txt").as_uri(), "name": "notes.txt"},
        ]
        await editor.request("session/prompt", sessionId=session_id, prompt=blocks)

    sent = str(at.model.requests[0].messages)
    assert "embedded text" in sent
    assert "from disk" in sent
    assert "image/png" in sent


@pytest.mark.parametrize(
    "blocks", [[], [{"type": "text", "text": "  "}], [{"type": "audio", "data": "", "mimeType": "audio/wav"}]]
)
async def test_a_prompt_without_usable_content_is_refused(tmp_path: Path, blocks: list[Any]) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        error = await editor.error("session/prompt", sessionId=session_id, prompt=blocks)

    assert error.code == INVALID_PARAMS


QUESTION: Script = {
    "ask": [
        [
            call(
                "question",
                questions=[
                    {
                        "question": "Which one?",
                        "header": "Pick",
                        "options": [
                            {"label": "A", "description": "first"},
                            {"label": "B", "description": "second"},
                        ],
                    }
                ],
            )
        ],
        [say("Thanks.")],
    ]
}


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("forms", [True, False])
async def test_a_question_is_a_form_or_options_to_choose(tmp_path: Path, forms: bool) -> None:
    offered: dict[str, Any] = {"elicitation": {"form": {}}} if forms else {}
    async with (
        open_project(tmp_path, QUESTION) as (at, project),
        open_editor(tmp_path / "data", **offered) as editor,
    ):
        editor.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"answer0": "B"},
        }
        editor.answers["session/request_permission"] = lambda params: {
            "outcome": {"outcome": "selected", "optionId": "option-1"}
        }
        session_id = await editor.new_session(project)
        stopped = await editor.prompt(session_id, "ask")

    assert stopped == "end_turn"
    assert [method for method, _ in editor.requests] == [
        "elicitation/create" if forms else "session/request_permission"
    ]
    assert "B" in str(at.model.requests[1].messages[-1])


@pytest.mark.spec("X-03")
async def test_a_form_without_an_answer_is_put_again(tmp_path: Path) -> None:
    async with (
        open_project(tmp_path, QUESTION) as (at, project),
        open_editor(tmp_path / "data", elicitation={"form": {}}) as editor,
    ):
        filled = iter([{}, {"other0": " "}, {"answer0": "B"}])
        editor.answers["elicitation/create"] = lambda params: {"action": "accept", "content": next(filled)}
        session_id = await editor.new_session(project)
        stopped = await editor.prompt(session_id, "ask")

    assert stopped == "end_turn"
    assert len(editor.requests) == 3
    assert "B" in str(at.model.requests[1].messages[-1])


@pytest.mark.spec("X-03", "S-12")
async def test_a_prompt_during_a_turn_is_queued_and_returns_with_its_answer(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: Script = {"wait": [[call("gate")], [say("Both answered.")]]}
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        first = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        second = asyncio.ensure_future(editor.prompt(session_id, "more"))
        entries = 0
        while entries < 2:
            entries = sum(each.info.role == "user" for each in await at.runtime.messages(session_id))  # type: ignore[arg-type]
        gate.go.set()
        stopped = await asyncio.gather(first, second)

    assert list(stopped) == ["end_turn", "end_turn"]


@pytest.mark.spec("X-03")
async def test_a_resume_begins_with_the_calls_and_tasks_that_are_under_way(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: RequestScript = {
        "both": [[launch_task("Count", "count"), call("gate")], [say("Done.")]],
        "count": [[call("gate")], [say("Three.")]],
    }
    async with open_delegation_stage(data, script, gate.tool) as at, serve_runtime(at.runtime, data):
        async with open_editor(data) as editor:
            session_id = await editor.new_session(tmp_path)
            prompted = asyncio.ensure_future(editor.prompt(session_id, "both"))
            await editor.until(lambda: _open_titles(editor) >= {"gate", "Count (@general)"})
            prompted.cancel()
        async with open_editor(data) as late:
            await late.request("session/resume", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
            begun = {update["title"] for update in late.of_kind("tool_call")}
            gate.go.set()
            await late.until(lambda: "Done." in late.text())

    known = {update["toolCallId"] for update in late.of_kind("tool_call")}
    changed = {update["toolCallId"] for update in late.of_kind("tool_call_update")}
    assert begun == {"gate", "Count (@general)"}
    assert changed <= known


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_client_that_attaches_in_the_middle_is_shown_what_a_child_does(
    tmp_path: Path, method: str
) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: RequestScript = {
        "launch": [[launch_task("Count", "count")], [say("Launched.")], [say("Counted.")]],
        "count": [[say("One, two."), call("gate")], [say("Three.")]],
    }
    async with open_delegation_stage(data, script, gate.tool) as at, serve_runtime(at.runtime, data):
        async with open_editor(data, subagents={}) as editor:
            session_id = await editor.new_session(tmp_path)
            await editor.prompt(session_id, "launch")
            await gate.until_started()
        async with open_editor(data, subagents={}) as late:
            await late.request(method, sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
            child_id = late.of_kind("subagent_update")[0]["sessionId"]
            at_first = late.kinds(child_id)
            gate.go.set()
            await late.until(lambda: "Counted." in late.text())
            later = late.kinds(child_id)[len(at_first) :]

    said = ["user_message_chunk", "agent_message_chunk"] if method == "session/load" else []
    assert [kind for kind in at_first if kind.endswith("chunk")] == said
    assert at_first.count("tool_call") == 1
    assert "tool_call_update" in later
    assert "tool_call" not in later


def _open_titles(editor: Editor) -> set[str]:
    return {
        update["title"]
        for _, update in editor.updates
        if update["sessionUpdate"].startswith("tool_call") and update.get("status") == "in_progress"
    }


async def test_a_cancel_of_an_unknown_session_changes_nothing(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:
        session_id = await editor.new_session(project)
        await editor.notify("session/cancel", sessionId="ses_unknown")
        stopped = await editor.prompt(session_id, "hi")

    assert stopped == "end_turn"


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_prompt_of_a_session_that_is_closed_or_deleted_returns_cancelled(
    tmp_path: Path, method: str
) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: Script = {"wait": [[call("gate")], [say("Never.")]]}
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        await editor.request(method, sessionId=session_id)
        stopped = await prompted

    assert stopped == "cancelled"


async def test_a_prompt_is_answered_though_its_session_is_loaded_twice_meanwhile(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: Script = {"wait": [[call("gate")], [say("Done.")]]}
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        known = {"sessionId": session_id, "cwd": str(tmp_path), "mcpServers": []}
        await asyncio.gather(
            editor.request("session/load", **known), editor.request("session/resume", **known)
        )
        gate.go.set()
        stopped = await prompted

    assert stopped == "end_turn"
    assert editor.text() == "Done.", "only the last one follows the session"


async def test_a_cancelled_prompt_request_aborts_the_turn(tmp_path: Path) -> None:
    gate, data = Gate("gate"), tmp_path / "data"
    script: Script = {"wait": [[call("gate")], [say("Never.")]]}
    async with (
        open_delegation_stage(data, script, gate.tool) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "wait"))
        await gate.until_started()
        prompted.cancel()
        async with asyncio.timeout(PATIENCE):
            await gate.ended.wait()

    assert editor.text() == ""


async def test_a_load_with_an_open_ask_says_that_a_person_is_needed(tmp_path: Path) -> None:
    async with open_project(tmp_path, CODING, bash="ask") as (at, project):
        await at.runtime.send(at.session_id, "run")
        await at.listener.until(PermissionAsked)
        async with open_editor(tmp_path / "data") as editor:
            editor.answers["session/request_permission"] = lambda params: CANCELLED
            known = {"sessionId": at.session_id, "cwd": str(project), "mcpServers": []}
            await editor.request("session/load", **known)
            await editor.until(lambda: "requires_action" in _states(editor))


@pytest.mark.spec("X-03")
async def test_sessions_that_are_closed_at_once_get_no_update_after_the_reply(tmp_path: Path) -> None:
    async with open_project(tmp_path, HELLO) as (_, project), open_editor(tmp_path / "data") as editor:

        async def open_and_close() -> None:
            session_id = await editor.new_session(project)
            await editor.request("session/close", sessionId=session_id)

        await asyncio.gather(*(open_and_close() for _ in range(20)))
        await editor.request("session/list")


@pytest.mark.spec("A-04")
@pytest.mark.parametrize("name", ["editor " * 1_000, "edi\0tor"])
async def test_an_answer_is_stored_whatever_the_client_is_called(tmp_path: Path, name: str) -> None:
    async with (
        open_project(tmp_path, CODING, bash="ask") as (_, project),
        open_editor(tmp_path / "data") as editor,
    ):
        await editor.request("initialize", protocolVersion=1, clientInfo={"name": name, "version": "1"})
        editor.answers["session/request_permission"] = lambda params: ALLOW_ONCE
        session_id = await editor.new_session(project)
        stopped = await editor.prompt(session_id, "run")

    assert stopped == "end_turn"


@pytest.mark.spec("A-04")
async def test_an_answer_that_the_server_refuses_leaves_the_ask_open_and_the_connection_up(
    tmp_path: Path,
) -> None:
    async with (
        open_project(tmp_path, QUESTION) as (at, project),
        open_editor(tmp_path / "data", elicitation={"form": {}}) as editor,
    ):
        editor.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"other0": "zero \0"},
        }
        session_id = await editor.new_session(project)
        prompted = asyncio.ensure_future(editor.prompt(session_id, "ask"))
        await editor.until(lambda: bool(editor.requests))
        await editor.request("session/list")
        still_open = await at.runtime.asks()
        await editor.notify("session/cancel", sessionId=session_id)
        stopped = await prompted

    assert len(still_open) == 1
    assert stopped == "cancelled"
