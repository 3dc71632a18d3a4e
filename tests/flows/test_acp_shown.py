"""What an editor shows besides answers: commands, effort, usage, titles, and whose child asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents import wait_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import CommandConfig, Config
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.provider import Reply, TokenUsage, open_provider
from tests.support.delegation import RequestScript, launch_agent, open_delegation_project
from tests.support.editor import ALLOW_ONCE, Editor, open_editor
from tests.support.http.server import serve_runtime
from tests.support.provider import PROVIDER_KEY, provider_config
from tests.support.runtime import answer_of, open_runtime, open_sqlite_runtime, open_stage

ASKING: RequestScript = {
    "launch": [[launch_agent("task", "general", "Look.", description="Job")], [say("It ran.")]],
    "Look.": [[call("bash", command="echo out", description="Say out")], [say("Ran.")]],
}


@asynccontextmanager
async def open_model_editor(tmp_path: Path, *replies: Reply) -> AsyncIterator[tuple[Runtime, Editor]]:
    """Connect an editor to a server whose model answers over HTTP; the model has limits and variants."""
    data = tmp_path / "data"
    async with open_provider({"go": list(replies)}, key=PROVIDER_KEY) as provider:
        config = provider_config(provider, data)
        wire = config.provider["chat"]
        small = replace(wire.models["small"], variants={"high": {"reasoningEffort": "high"}})
        config = replace(config, provider={"chat": replace(wire, models={"small": small})})
        async with (
            open_runtime(data, model="chat/small", config=config) as runtime,
            serve_runtime(runtime, data),
            open_editor(data) as editor,
        ):
            yield runtime, editor


@pytest.mark.spec("X-03", "S-08")
async def test_slash_commands_are_announced_and_run(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shout = CommandConfig(description="Shouts a word.", template="Shout $ARGUMENTS.")
    coding = Config(data_dir=data, command={"shout": shout})
    async with (
        open_stage(data, {"Shout hello.": [[say("HELLO")]]}, coding=coding) as at,
        serve_runtime(at.runtime, data),
        open_editor(data) as editor,
    ):
        session_id = await editor.new_session(data)
        await editor.until(lambda: "available_commands_update" in editor.kinds())
        stopped = await editor.prompt(session_id, "/shout hello")

    (announced,) = editor.of_kind("available_commands_update")
    listed = {each["name"]: each["description"] for each in announced["availableCommands"]}
    assert listed["shout"] == "Shouts a word."
    assert stopped == "end_turn"
    assert editor.text() == "HELLO"


@pytest.mark.spec("X-03")
async def test_a_chosen_effort_is_that_of_the_next_prompt(tmp_path: Path) -> None:
    async with open_model_editor(tmp_path, Reply(text="Thought.")) as (runtime, editor):
        session_id = await editor.new_session(tmp_path)
        chosen = await editor.request(
            "session/set_config_option", sessionId=session_id, configId="effort", value="high"
        )
        await editor.prompt(session_id, "go")
        session = await runtime.session(SessionId(session_id))

    (effort,) = [each for each in chosen["configOptions"] if each["id"] == "effort"]
    assert effort["currentValue"] == "high"
    assert session.model is not None
    assert session.model.variant == "high"


@pytest.mark.spec("X-03")
async def test_tokens_window_and_cost_are_shown_after_an_answer(tmp_path: Path) -> None:
    reply = Reply(text="Hello.", usage=TokenUsage(input=100, output=20))
    async with open_model_editor(tmp_path, reply) as (runtime, editor):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "go")
        (_, answer) = await runtime.messages(SessionId(session_id))

    shown = editor.of_kind("usage_update")[-1]
    assert shown["used"] == 120
    assert shown["size"] > shown["used"]
    assert shown["cost"] == {"amount": answer_of(answer).cost, "currency": "USD"}


@pytest.mark.spec("X-03", "P-07")
async def test_the_turn_that_a_timer_starts_is_streamed_after_the_prompt_has_returned(tmp_path: Path) -> None:
    clock = FakeClock(SystemClock().now())  # the editor makes ids of its own
    model = ScriptedModel({"go": [[call("wait", seconds=3600)], [say("Going on.")]]})
    setup = Setup(model=model, open_workplaces=fixed_tools([wait_tool(clock)]))
    async with (
        open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime,
        serve_runtime(runtime, tmp_path),
        open_editor(tmp_path) as editor,
    ):
        session_id = await editor.new_session(tmp_path)
        stopped = await editor.prompt(session_id, "go")
        before = editor.text()
        clock.advance(3_600_000)
        await editor.until(lambda: "Going on." in editor.text())

    assert stopped == "end_turn"
    assert before == ""
    (waited,) = editor.of_kind("tool_call")
    changes = [
        each for each in editor.of_kind("tool_call_update") if each["toolCallId"] == waited["toolCallId"]
    ]
    assert changes[-1]["status"] == "completed"


@pytest.mark.spec("X-03")
async def test_the_cost_after_a_load_is_that_of_the_session(tmp_path: Path) -> None:
    reply = Reply(text="Hello.", usage=TokenUsage(input=100, output=20))
    async with open_model_editor(tmp_path, reply, reply) as (runtime, editor):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "go")
        async with open_editor(tmp_path / "data") as late:
            await late.request("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
            (loaded,) = late.of_kind("usage_update")
            once = (await runtime.session(SessionId(session_id))).cost
            await late.prompt(session_id, "go")
            twice = (await runtime.session(SessionId(session_id))).cost

    assert once
    assert loaded["cost"]["amount"] == once
    assert twice == pytest.approx(2 * once)
    assert late.of_kind("usage_update")[-1]["cost"]["amount"] == pytest.approx(twice)
    assert editor.of_kind("usage_update")[-1]["cost"]["amount"] == pytest.approx(twice)


@pytest.mark.spec("X-03", "S-02")
async def test_the_title_that_the_first_prompt_gives_is_shown(tmp_path: Path) -> None:
    async with open_model_editor(tmp_path, Reply(text="Hello.")) as (_, editor):
        session_id = await editor.new_session(tmp_path)
        await editor.prompt(session_id, "go")
        await editor.until(lambda: "go" in _titles(editor))

    assert _titles(editor)[-1] == "go"


def _titles(editor: Editor) -> list[str]:
    return [each["title"] for each in editor.of_kind("session_info_update") if "title" in each]


@pytest.mark.spec("X-03", "A-04")
@pytest.mark.parametrize("capabilities", [{}, {"subagents": {}}])
async def test_the_ask_of_a_child_names_the_sessions_above_it(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    rules = {"task": "allow", "bash": "ask"}
    async with (
        open_delegation_project(tmp_path, ASKING, permission=rules) as at,
        serve_runtime(at.runtime, tmp_path / "data"),
        open_editor(tmp_path / "data", **capabilities) as editor,
    ):
        editor.answers["session/request_permission"] = lambda params: ALLOW_ONCE
        session_id = await editor.new_session(tmp_path / "project")
        await editor.prompt(session_id, "launch")

    ((_, asked),) = editor.requests
    above, child = asked["toolCall"]["_meta"]["asyncagents"]["lineage"]
    assert above["sessionId"] == session_id
    assert child["title"] == "Job (@general subagent)"
    assert asked["sessionId"] == (child["sessionId"] if capabilities else session_id)
    states = [each["state"]["state"] for each in editor.of_kind("subagent_update")]
    assert states == (["running", "requires_action", "running", "idle"] if capabilities else [])
    assert editor.text().endswith("It ran.")
