"""What OpenCode's clients have a session do over HTTP: shells, commands, summaries, and tasks let go."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import CommandConfig, Config
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.part import CompactionPart, ToolPart, ToolRunning
from asyncagents.domain.conversation.status import Idle, Retry
from asyncagents.domain.event import (
    CommandExecuted,
    PartUpdated,
    SessionCompacted,
    SessionError,
    SessionIdle,
    TaskCreated,
)
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import Script, ScriptedModel, call, fail, say
from tests.support.git import create_repository
from tests.support.http.opencode import entry_text, text_prompt
from tests.support.http.server import StageClient, serve_stage
from tests.support.model import HaltingModel

MINE = "msg_000000000001AAAAAAAAAAAAAA"
"""Older than all that are made here."""
MODEL = {"providerID": "scripted", "modelID": "other"}


@asynccontextmanager
async def project(
    tmp_path: Path, script: Script | ScriptedModel, *, files: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[StageClient]:
    root = tmp_path / "project"
    create_repository(root, files or {})
    coding = Config(data_dir=tmp_path / "data", **config)
    async with serve_stage(tmp_path / "data", script, coding=coding, directory=root) as at:
        yield at


def where(at: StageClient) -> str:
    return f"/session/{at.stage.session_id}"


async def until_printed(at: StageClient, output: str) -> None:
    def printed(event: PartUpdated) -> bool:
        state = event.part.state if isinstance(event.part, ToolPart) else None
        return isinstance(state, ToolRunning) and output in str(state.metadata)

    await at.stage.listener.until(PartUpdated, printed)


@pytest.mark.spec("X-01")
async def test_a_shell_answers_with_its_message_and_its_one_part(tmp_path: Path) -> None:
    async with project(tmp_path, {}) as at:
        wanted = {"agent": "plan", "command": "echo shell", "model": MODEL, "messageID": MINE, "new": 1}
        said = await at.post(f"{where(at)}/shell", wanted)
        user, step = (await at.get(f"{where(at)}/message")).json
        session = (await at.get(where(at))).json

    assert said.status == 200
    assert said.json == step
    info, (part,) = step["info"], step["parts"]
    assert {"finish", "error"}.isdisjoint(info)
    assert info["parentID"] == MINE
    assert info["agent"] == "plan"
    assert info["mode"] == "plan"
    assert info["providerID"] == "scripted"
    assert info["modelID"] == "other"
    assert info["tokens"]["output"] == 0
    assert part["type"] == "tool"
    assert part["tool"] == "bash"
    state = part["state"]
    assert state["status"] == "completed"
    assert state["input"] == {"command": "echo shell"}
    assert state["output"] == "shell\n"
    assert state["title"] == ""
    assert state["metadata"]["output"] == "shell\n"
    assert user["info"]["id"] == MINE
    assert user["parts"][0]["synthetic"]
    assert {"agent", "model"}.isdisjoint(session)


@pytest.mark.spec("X-01")
async def test_a_busy_session_refuses_a_shell_in_the_form_that_clients_know(tmp_path: Path) -> None:
    command = f"mkfifo {tmp_path}/pipe; echo begun; cat {tmp_path}/pipe"
    async with project(tmp_path, {"hi": [[say("Hello.")]]}) as at, asyncio.TaskGroup() as group:
        shell = f"{where(at)}/shell"
        running = group.create_task(at.post(shell, {"agent": "build", "command": command}))
        await until_printed(at, "begun")
        refused = await at.post(shell, {"agent": "build", "command": "echo two"})
        status = (await at.get("/session/status")).json
        prompted = group.create_task(at.post(f"{where(at)}/message", text_prompt("hi")))
        await asyncio.to_thread((tmp_path / "pipe").write_text, "")
        first, answer = await running, await prompted

    assert refused.status == 409
    assert refused.json["_tag"] == "SessionBusyError"
    assert refused.json["sessionID"] == at.stage.session_id
    assert refused.json["message"] == refused.json["data"]["message"]
    assert status == {at.stage.session_id: {"type": "busy"}}
    assert first.json["parts"][0]["state"]["output"] == "begun\n"
    assert entry_text(answer.json) == "Hello."


@pytest.mark.spec("X-01")
async def test_a_shell_survives_a_disconnected_client_and_ends_with_an_abort(tmp_path: Path) -> None:
    command = f"mkfifo {tmp_path}/pipe; echo begun; cat {tmp_path}/pipe"
    async with project(tmp_path, {}) as at:
        shell = f"{where(at)}/shell"
        async with asyncio.TaskGroup() as group:
            left = group.create_task(at.post(shell, {"command": command}, headers={"idempotency-key": "k"}))
            await until_printed(at, "begun")
            left.cancel()
        async with asyncio.TaskGroup() as group:
            again = group.create_task(at.post(shell, {"command": command}, headers={"idempotency-key": "k"}))
            aborted = await at.post(f"{where(at)}/abort")
        said = again.result()

    assert aborted.json is True
    assert said.status == 200
    assert said.json["info"]["error"] == {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    assert said.json["parts"][0]["state"]["metadata"] == {"output": "begun\n"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"agent": "build"}, "command"),
        ({"agent": "build", "command": ""}, "some text"),
        ({"agent": "nobody", "command": "true"}, "there is no agent 'nobody'"),
        ({"agent": "build", "command": "true", "messageID": "nope"}, "begin"),
        ({"agent": "build", "command": 3}, "command"),
    ],
)
async def test_a_shell_that_cannot_be_run_is_refused_with_the_reason(
    tmp_path: Path, body: dict[str, Any], said: str
) -> None:
    async with project(tmp_path, {}) as at:
        refused = await at.post(f"{where(at)}/shell", body)
        kept = (await at.get(f"{where(at)}/message")).json
        nowhere = await at.post("/session/ses_none/shell", {"command": "true"})

    assert refused.status == 400
    assert kept == []
    assert said in refused.json["data"]["message"]
    assert nowhere.status == 404


@pytest.mark.spec("X-01")
async def test_a_command_is_answered_and_publishes_command_executed(tmp_path: Path) -> None:
    fix = CommandConfig(template="Fix $1, says $ARGUMENTS.", description="Fixes")
    async with project(tmp_path, {}, command={"fix": fix}, files={"a.txt": "one\n"}) as at:
        file = {"type": "file", "mime": "text/plain", "url": (tmp_path / "project/a.txt").as_uri()}
        said = await at.post(
            f"{where(at)}/command",
            {
                "command": "fix",
                "arguments": "it now",
                "agent": "build",
                "model": "scripted/other",
                "messageID": MINE,
                "parts": [file],
            },
        )
        told = await at.stage.listener.until(CommandExecuted)
        entries = (await at.get(f"{where(at)}/message")).json

    assert said.json["info"]["modelID"] == "other"
    assert told.name == "fix"
    assert told.arguments == "it now"
    assert told.message_id == said.json["info"]["id"]
    assert entries[0]["info"]["id"] == MINE
    texts = [part["text"] for part in entries[0]["parts"] if part["type"] == "text"]
    assert texts[0] == "Fix it now, says it now."
    assert any("one" in each for each in texts[1:])


@pytest.mark.spec("X-01")
async def test_a_command_publishes_its_event_after_its_client_disconnects(tmp_path: Path) -> None:
    slow = CommandConfig(template="slowly")
    model = HaltingModel({"slowly": [[say("Do", "ne.")]]}, "Do")
    async with project(tmp_path, model, command={"slow": slow}) as at:
        async with asyncio.TaskGroup() as group:
            body = {"command": "slow", "arguments": ""}
            left = group.create_task(at.post(f"{where(at)}/command", body))
            await at.stage.listener.until(PartUpdated)
            left.cancel()
        model.go.set()
        told = await at.stage.listener.until(CommandExecuted)
        entry = await at.stage.runtime.message(told.message_id)
    assert entry.text == "Done."


async def test_an_unknown_command_is_refused_with_the_known_names(
    tmp_path: Path,
) -> None:
    async with project(tmp_path, {}) as at:
        refused = await at.post(f"{where(at)}/command", {"command": "nope", "arguments": ""})
        told = await at.stage.listener.until(SessionError)
        nowhere = await at.post("/session/ses_none/command", {"command": "init", "arguments": ""})
        kept = (await at.get(f"{where(at)}/message")).json
    assert refused.status == 400
    assert kept == []
    assert nowhere.status == 404
    assert "use one of compact, init, review" in refused.json["data"]["message"]
    assert told.error == unknown_error(refused.json["data"]["message"])


@pytest.mark.spec("X-01")
async def test_init_runs_the_command_that_writes_agents_md(tmp_path: Path) -> None:
    async with project(tmp_path, ScriptedModel({})) as at:
        made = await at.post(f"{where(at)}/init", {**MODEL, "messageID": MINE})
        told = await at.stage.listener.until(CommandExecuted)
        first = (await at.get(f"{where(at)}/message")).json[0]
    assert made.status == 200
    assert made.json is True
    assert told.name == "init"
    assert first["info"]["id"] == MINE
    assert first["info"]["model"] == MODEL
    assert "AGENTS.md" in entry_text(first)


async def test_a_project_may_have_an_init_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {".asyncagents/commands/init.md": "Our own way."}
    async with project(tmp_path, ScriptedModel({}), files=files) as at:
        strange = await at.post(f"{where(at)}/init", MODEL)
        kept = (await at.get(f"{where(at)}/message")).json
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    async with project(tmp_path, ScriptedModel({}), files=files) as at:
        made = await at.post(f"{where(at)}/init", MODEL)
        first = (await at.get(f"{where(at)}/message")).json[0]
        names = [each.name for each in await at.stage.runtime.commands(tmp_path / "project")]
    assert strange.status == 400
    assert kept == []
    assert "which is not trusted: run `asyncagents trust" in strange.json["data"]["message"]
    assert made.json is True
    assert entry_text(first) == "Our own way."
    assert names == ["compact", "review", "init"]


@pytest.mark.spec("X-01")
async def test_a_summary_is_written_by_the_model_that_was_named_and_the_session_keeps_its_own(
    tmp_path: Path,
) -> None:
    script = ScriptedModel({"hi": [[say("Hello.")]], "again": [[say("Again.")]]})
    async with project(tmp_path, script) as at:
        await at.post(f"{where(at)}/message", text_prompt("hi"))
        done = await at.post(f"{where(at)}/summarize", {**MODEL, "more": True})
        await at.stage.listener.until(SessionCompacted)
        entries = (await at.get(f"{where(at)}/message")).json
        answer = await at.post(f"{where(at)}/message", text_prompt("again"))
        session = (await at.get(where(at))).json
    summary = entries[-1]["info"]
    assert done.status == 200
    assert done.json is True
    assert summary["summary"] is True
    assert summary["agent"] == "compaction"
    assert summary["mode"] == "compaction"
    assert summary["providerID"] == "scripted"
    assert summary["modelID"] == "other"
    assert entries[-2]["parts"][0]["type"] == "compaction"
    assert answer.json["info"]["modelID"] == "scripted" == session["model"]["id"]


async def test_an_automatic_summary_lets_the_model_go_on(tmp_path: Path) -> None:
    script = ScriptedModel({"hi": [[say("Hello.")]]})
    async with project(tmp_path, script) as at:
        await at.post(f"{where(at)}/message", text_prompt("hi"))
        done = await at.post(f"{where(at)}/summarize", {**MODEL, "auto": True})
        entries = (await at.get(f"{where(at)}/message")).json
    assert done.json is True
    assert entries[2]["parts"][0] | {"auto": True} == entries[2]["parts"][0]
    assert [each["info"]["role"] for each in entries[-2:]] == ["user", "assistant"]
    assert "summary" not in entries[-1]["info"]


async def test_a_summary_waits_for_its_turn_in_a_busy_session(tmp_path: Path) -> None:
    model = HaltingModel({"hi": [[say("Hel", "lo.")]]}, "Hel")
    async with project(tmp_path, model) as at, asyncio.TaskGroup() as group:
        await at.post(f"{where(at)}/prompt_async", text_prompt("hi"))
        await model.halts.wait()
        summary = group.create_task(at.post(f"{where(at)}/summarize", MODEL))
        await at.stage.listener.until(PartUpdated, lambda event: isinstance(event.part, CompactionPart))
        model.go.set()
        done = await summary
        entries = (await at.get(f"{where(at)}/message")).json
    assert done.json is True
    assert [entry_text(entry) for entry in entries][1] == "Hello."
    assert entries[-1]["info"]["summary"]


@pytest.mark.spec("X-01")
async def test_a_session_moves_its_sync_tasks_to_the_background_and_goes_on(tmp_path: Path) -> None:
    def task(name: str) -> Any:
        return call("task", description=name, prompt=f"{name}, please", subagent_type="general")

    script = {
        "go": [[task("one"), task("two")], [say("They work on.")], [say("Both are done.")]],
        "one, please": [[say("It is ", "one.")]],
        "two, please": [[say("It is ", "two.")]],
    }
    model = HaltingModel(script, "It is ")
    async with project(tmp_path, model) as at, asyncio.TaskGroup() as group:
        let_go = f"/experimental/session/{at.stage.session_id}/background"
        nothing = (await at.post(let_go)).json
        answer = group.create_task(at.post(f"{where(at)}/message", text_prompt("go")))
        await at.stage.listener.until(TaskCreated)
        await at.stage.listener.until(TaskCreated)
        moved = (await at.post(let_go)).json
        again = (await at.post(let_go)).json
        said = await answer
        model.go.set()
        waits = await at.stage.runtime.wait_tree(at.stage.session_id)
        last = (await at.stage.messages())[-1].text
        can = (await at.get("/experimental/capabilities")).json
        nowhere = (await at.post("/experimental/session/ses_none/background")).status

    assert nothing is False
    assert moved is True
    assert again is False
    assert entry_text(said.json) == "They work on."
    assert waits == {}
    assert last == "Both are done."
    assert can == {"backgroundSubagents": True}
    assert nowhere == 404


@pytest.mark.spec("X-01")
async def test_an_abort_of_an_idle_or_missing_session_returns_true(tmp_path: Path) -> None:
    async with project(tmp_path, {}) as at:
        idle = await at.post(f"{where(at)}/abort")
        await at.stage.listener.until_status(Idle)
        await at.stage.listener.until(SessionIdle)
        nowhere = await at.post("/session/ses_none/abort")
    assert idle.json is True
    assert nowhere.status == 200
    assert nowhere.json is True


@pytest.mark.spec("X-01")
async def test_an_abort_during_a_backoff_leaves_its_error_on_the_message(tmp_path: Path) -> None:
    script = {"hi": [[fail("overloaded", retryable=True, status=503)]]}
    async with project(tmp_path, script) as at, asyncio.TaskGroup() as group:
        waiting = group.create_task(at.post(f"{where(at)}/message", text_prompt("hi")))
        status = await at.stage.listener.until_status(Retry)
        aborted = await at.post(f"{where(at)}/abort")
        said = await waiting
        (_, kept) = (await at.get(f"{where(at)}/message")).json
        after = (await at.get("/session/status")).json
    assert isinstance(status, Retry)
    assert status.attempt == 1
    assert aborted.json is True
    assert said.status == 200
    assert after == {}
    assert said.json == kept
    assert kept["info"]["error"] == {"name": "MessageAbortedError", "data": {"message": "Aborted"}}


@pytest.mark.spec("X-01")
@pytest.mark.parametrize(
    "part",
    [
        {"type": "agent", "name": "nobody"},
        {"type": "subtask", "prompt": "find", "description": "Find it", "agent": "nobody"},
        {"type": "file", "mime": "text/plain", "url": "file:///none/at/all.txt"},
        {"type": "file", "mime": "text/plain", "url": "ftp://example.org/x"},
    ],
)
async def test_an_invalid_part_is_refused_and_the_session_stays_usable(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    async with project(tmp_path, {"hi": [[say("Hello.")]]}) as at:
        refused = await at.post(f"{where(at)}/message", {"parts": [*text_prompt("hi")["parts"], part]})
        kept = (await at.get(f"{where(at)}/message")).json
        answer = await at.post(f"{where(at)}/message", text_prompt("hi"))
    assert refused.status == 400
    assert kept == []
    assert entry_text(answer.json) == "Hello."


@pytest.mark.spec("X-01")
async def test_file_agent_and_subtask_parts_of_a_prompt_take_effect(tmp_path: Path) -> None:
    files = {"a.txt": "one\ntwo\nthree\n", "sub/b.txt": "b"}
    script = ScriptedModel({"find": [[say("Found.")]]})
    async with project(tmp_path, script, files=files) as at:
        root = (tmp_path / "project").as_uri()
        parts = [
            {"type": "text", "text": "look"},
            {"type": "file", "mime": "text/plain", "url": f"{root}/a.txt?start=2&end=2"},
            {"type": "file", "mime": "application/x-directory", "url": f"{root}/sub"},
            {"type": "file", "mime": "text/plain", "url": "data:text/plain;base64,aGVsbG8=", "filename": "x"},
            {"type": "agent", "name": "explore"},
            {"type": "subtask", "prompt": "find", "description": "Find it", "agent": "general"},
        ]
        said = await at.post(f"{where(at)}/message", {"parts": parts})
        (child,) = (await at.get(f"{where(at)}/children")).json
        entries = (await at.get(f"{where(at)}/message")).json
    assert said.status == 200
    (asked, *_), task = at.stage.request_messages(), entries[1]["parts"][0]
    assert isinstance(asked, UserTurn)
    assert "two" in asked.text
    assert "three" not in asked.text
    assert all(word in asked.text for word in ("b.txt", "hello", "the subagent explore"))
    assert task["tool"] == "task"
    assert task["state"]["status"] == "completed"
    assert task["state"]["metadata"]["sessionId"] == child["id"]
    assert any(isinstance(each, ToolTurn) and "Found." in each.output for each in at.stage.request_messages())
