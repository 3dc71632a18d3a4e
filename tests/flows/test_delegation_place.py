"""Delegation in a project and among its neighbours: commands, hooks, todos, summaries, providers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import (
    AgentConfig,
    CommandConfig,
    Config,
    DelegationConfig,
    ModelConfig,
    ProviderConfig,
)
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.event import TaskCompleted
from asyncagents.domain.window import Window
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptStep, call, say
from asyncagents.plugins.api import PluginContext, PluginHooks
from asyncagents.testing.provider import Reply, ToolUse, open_provider
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    allow_all,
    child_session,
    launch_agent,
    launch_task,
    open_delegation_project,
    read_notices,
    request_outputs,
    requests_of,
    task_named,
    visible_texts,
    wait_until_quiet,
)
from tests.support.git import create_repository
from tests.support.model import WindowModel, is_summary_request
from tests.support.runtime import open_runtime, open_stage
from tests.support.tool import OPEN_TODOS, Gate, read_nudges, write_todos
from tests.support.wait import PATIENCE


@pytest.mark.spec("D-11", "D-01")
async def test_a_subtask_command_runs_in_a_child_and_the_parent_goes_on(tmp_path: Path) -> None:
    command = {"find": CommandConfig(template="Find $ARGUMENTS", agent="explore", subtask=True)}
    scenes: RequestScript = {"Find sparrows": [[say("In the tree.")]]}
    async with open_delegation_project(tmp_path, scenes, command=command) as at:
        answer = await at.prompt("/find sparrows")
        (child,) = await at.runtime.children(at.session_id)
        (state,) = await at.states()
        task = (await at.runtime.tasks.list(at.session_id))[0]
    assert isinstance(state, ToolCompleted)
    assert "In the tree." in state.output
    assert state.metadata["sessionId"] == child.id == task.session_id
    assert child.agent == "explore"
    assert task.agent == "explore"
    assert task.status == "completed"
    assert answer.text == "ok"


@pytest.mark.spec("D-11")
async def test_a_mention_of_an_agent_asks_the_model_to_delegate(tmp_path: Path) -> None:
    async with open_delegation_project(tmp_path, {}) as at:
        await at.prompt("Please ask @explore where it is")
        children = await at.runtime.children(at.session_id)
    said = [told.text for told in at.request_messages(0) if isinstance(told, UserTurn)][-1]
    assert ("task" in said.partition("where it is")[2]) is True
    assert children == ()


@pytest.mark.spec("A-06")
async def test_a_hook_of_chat_message_sees_and_changes_a_childs_prompt(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hook(input: dict[str, Any], output: dict[str, Any]) -> None:
        heard.append(output["parts"][0]["text"])
        output["parts"][0]["text"] += "!"

    async def plugin(context: PluginContext) -> PluginHooks:
        return {"chat.message": hook}

    create_repository(tmp_path / "project", {})
    scenes: RequestScript = {
        "go!": [[launch_agent("task", "general")], [say("Ok.")]],
        "look!": [[say("Red.")]],
    }
    config = Config(data_dir=tmp_path / "data")
    async with open_stage(
        tmp_path / "data",
        RequestScriptModel(scenes),
        coding=config,
        plugins=[plugin],
        directory=tmp_path / "project",
    ) as at:
        answer = await at.prompt("go")
        (state,) = await at.states()
    assert heard == ["go", "look"]
    assert answer.text == "Ok."
    assert isinstance(state, ToolCompleted)
    assert "Red." in state.output


@pytest.mark.spec("C-09", "T-12")
async def test_the_todo_reminder_waits_until_no_task_is_live(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [
            [write_todos(OPEN_TODOS), launch_agent("asyncagents_task", "worker")],
            [say("I wait.")],
            *[[say("Told.")]] * 3,
        ],
        "look": [[call("gate")], [say("Red.")]],
    }
    agents = {"worker": AgentConfig(mode="subagent", permission={"gate": "allow"})}
    create_repository(tmp_path / "project", {})
    config = Config(data_dir=tmp_path / "data", agent=agents, permission={"gate": "allow"})
    async with open_stage(
        tmp_path / "data",
        RequestScriptModel(scenes),
        tools=[gate.tool],
        coding=config,
        directory=tmp_path / "project",
    ) as at:
        answer = await at.prompt("go")
        await gate.until_started()
        quiet = await read_nudges(at)
        gate.go.set()
        await at.listener.until(TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        after = await read_nudges(at)
    assert answer.text == "I wait."
    assert quiet == []
    assert len(after) == 1


@pytest.mark.spec("T-14")
async def test_a_summary_lists_the_tasks_that_live(tmp_path: Path) -> None:
    gate = Gate("gate")

    def answer(request: Any) -> ScriptStep:
        first = request.messages[0]
        if isinstance(first, UserTurn) and first.text == "look":
            return [say("Red.")] if request_outputs(request) else [call("gate")]
        if any("compact" in str(told) or "ses_" in str(told) for told in request.messages):
            return [say("Ok.")]
        return [launch_task("Job", "look")]

    model = WindowModel(Window(), answer)
    async with open_runtime(
        tmp_path, model=model, tools=[gate.tool], delegation=True, policy=allow_all
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        async with asyncio.timeout(PATIENCE):
            await runtime.prompt(session.id, "go")
            await gate.until_started()
            (task,) = await runtime.tasks.list(session.id)
            await runtime.compact(session.id)
            await runtime.prompt(session.id, "and now?")
        asked = [r for r in model.requests if not is_summary_request(r)][-1]
        gate.go.set()
        await wait_until_quiet(runtime, session.id)
    told = "\n".join(str(each) for each in asked.messages)
    assert "Tasks that you launched and that have not ended" in told
    assert task.session_id in told


@pytest.mark.spec("T-13")
async def test_a_notice_in_development_mentions_the_attached_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCAGENTS_ENV", "development")
    scenes: RequestScript = {
        "go": [[launch_agent("asyncagents_task", "general")], [say("Off.")], [say("Told.")]],
        "look": [[say("Red.")]],
    }
    async with open_delegation_project(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        (notice,) = await read_notices(at)
    assert visible_texts(notice)[0].endswith("Task Progress: 1/1 [hint attached]")


@pytest.mark.spec("D-08")
@pytest.mark.parametrize("tool", ["task", "asyncagents_task"])
@pytest.mark.parametrize(
    ("agent", "reason"), [("keyless", "ANTHROPIC_API_KEY"), ("unknown", "nowhere"), ("unlisted", "other")]
)
async def test_a_launch_without_a_usable_model_is_refused_at_once(
    tmp_path: Path, tool: str, agent: str, reason: str
) -> None:
    name = "subagent_type" if tool == "task" else "agent"
    given = {"description": "Job", "prompt": "look", name: agent}
    steps = [Reply(tools=(ToolUse(tool, given),)), Reply(text="I do it myself.")]
    agents = {
        "keyless": AgentConfig(mode="subagent", model=ModelRef(provider_id="anthropic", model_id="claude-x")),
        "unlisted": AgentConfig(mode="subagent", model=ModelRef(provider_id="chat", model_id="other")),
        "unknown": AgentConfig(mode="subagent", model=ModelRef(provider_id="nowhere", model_id="small")),
    }
    async with open_provider({"go": steps}, key="sk-x") as provider:
        one = ProviderConfig(
            npm="@ai-sdk/openai-compatible",
            base_url=f"{provider.url}/v1",
            api_key=Secret("sk-x"),
            models={"small": ModelConfig()},
        )
        config = Config(
            data_dir=tmp_path / "data",
            agent=agents,
            provider={"chat": one},
            delegation=DelegationConfig(),
        )
        create_repository(tmp_path / "project", {})
        async with (
            open_runtime(tmp_path / "data", model="chat/small", config=config, coding=config) as runtime,
            asyncio.timeout(PATIENCE),
        ):
            session = await runtime.create_session(directory=tmp_path / "project")
            answer = await runtime.prompt(session.id, "go")
            entries = await runtime.messages(session.id)
            tasks, children = await runtime.tasks.list(), await runtime.children(session.id)
    (state,) = [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert isinstance(state, ToolFailed)
    assert state.error.startswith("No task was created: ")
    assert (reason in state.error) is True
    assert tasks == ()
    assert children == ()
    assert answer.text == "I do it myself."


@pytest.mark.spec("D-12")
async def test_a_parent_reads_the_transcript_of_a_task_that_still_works(tmp_path: Path) -> None:
    def look(request: Any) -> ScriptStep:
        return [call("asyncagents_output", task_id=_first(request_outputs(request)), full_session=True)]

    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("Job", "look")], [say("Off.")], [say("Told.")]],
        "look": [[say("I begin."), call("gate")], [say("Red.")]],
        "read": [look, [say("Read.")], [say("Told.")]],
    }
    async with open_stage(
        tmp_path, RequestScriptModel(scenes), tools=[gate.tool], delegation=True, policy=allow_all
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.prompt("read")
        child = await child_session(at, "Job")
        before = await task_named(at.runtime, "Job")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        told = await read_notices(at)
    said = request_outputs(requests_of(at, "go")[3])[-1]
    assert "I begin." in said
    assert child in request_outputs(requests_of(at, "go")[3])[0]
    assert before.result_retrieved_at is None
    assert len(told) == 1


def _first(texts: list[str]) -> str:
    return texts[0].partition("task_id: ")[2].splitlines()[0]
