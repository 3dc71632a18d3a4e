"""Plugins in a runtime without files and rules: their tools, under its policy, and their hooks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents import PluginContext, PluginHooks, tool
from asyncagents.domain.conversation.part import TextPart, ToolCompleted
from asyncagents.domain.event import Event, PermissionAsked, SessionIdle
from asyncagents.engine.tool import Ask
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import call, say
from tests.support.runtime import open_stage
from tests.support.tool import ECHO


@tool(effect="none")
def motto() -> str:
    """Tell the motto."""
    return "Measure twice."


@tool(effect="none")
def echo(text: str) -> str:
    """Say the same; the program has a tool of this name."""
    return "from the plugin"


class Recorder:
    """A plugin that has hooks of many kinds, and notes what was called."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.called: list[str] = []
        self.finished = asyncio.Event()

    async def plugin(self, context: PluginContext) -> PluginHooks:
        self.started.append(context.directory)
        return {
            "tool": [motto, echo],
            "chat.message": self.message,
            "chat.params": lambda _, output: output.update(temperature=0.25),
            "experimental.chat.system.transform": lambda _, output: output["system"].append("Be brief."),
            "tool.execute.before": self.before,
            "tool.execute.after": self.after,
            "experimental.text.complete": sign,
            "event": self.event,
        }

    def message(self, input: dict[str, Any], output: dict[str, Any]) -> None:
        self.called.append("chat.message")
        output["parts"][0]["text"] += " now"

    def before(self, input: dict[str, Any], output: dict[str, Any]) -> None:
        self.called.append(f"before {input['tool']}")
        if "text" in output["args"]:
            output["args"]["text"] += "!"

    def after(self, input: dict[str, Any], output: dict[str, Any]) -> None:
        self.called.append(f"after {input['tool']}")
        output["output"] += " (seen)"

    async def event(self, event: Event) -> None:
        if isinstance(event, SessionIdle):
            self.finished.set()


def sign(input: dict[str, Any], output: dict[str, Any]) -> None:
    output["text"] += " (signed)"


@pytest.mark.spec("X-06")
async def test_tools_and_hooks_of_a_plugin_work_without_coding(tmp_path: Path) -> None:
    recorder = Recorder()
    script = {"go now": [[call("motto"), call("echo", text="hi")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[ECHO], plugins=[recorder.plugin]) as at:
        answer = await at.prompt("go")
        motto_state, echo_state = await at.states()
        async with asyncio.timeout(30):
            await recorder.finished.wait()
        texts = [part.text for part in answer.parts if isinstance(part, TextPart)]
    first = at.model.requests[0]
    assert [spec.name for spec in first.tools] == ["echo", "motto"]
    assert first.options.temperature == 0.25
    assert first.system == "Be brief."
    assert [each.text for each in first.messages if isinstance(each, UserTurn)] == ["go now"]
    assert isinstance(motto_state, ToolCompleted)
    assert isinstance(echo_state, ToolCompleted)
    assert motto_state.output == "Measure twice. (seen)"
    assert echo_state.output == "hi! (seen)"
    assert texts == ["Done. (signed)"]
    assert recorder.started == [str(tmp_path)]
    assert recorder.called[0] == "chat.message"
    assert sorted(recorder.called[1:]) == ["after echo", "after motto", "before echo", "before motto"]


@pytest.mark.spec("X-06")
async def test_a_prompt_with_a_key_is_changed_by_a_hook_once(tmp_path: Path) -> None:
    recorder = Recorder()
    async with open_stage(tmp_path, {"go now": [[say("Done.")]]}, plugins=[recorder.plugin]) as at:
        for _ in range(2):
            await at.runtime.prompt(at.session_id, "go", key="k")
        entries = await at.runtime.messages(at.session_id)
    assert len(entries) == 2
    assert recorder.called == ["chat.message"]


async def test_a_tool_of_a_plugin_is_under_the_policy_of_the_runtime(tmp_path: Path) -> None:
    async def plan(context: Any) -> tuple[Ask, ...]:
        return (Ask("danger", ("*",)),)

    @tool(plan=plan)
    def danger() -> str:
        """Do something dangerous."""
        return "done"

    async def plugin(context: PluginContext) -> PluginHooks:
        return {"tool": [danger]}

    script = {"go": [[call("danger")], [say("Done.")]]}
    async with open_stage(tmp_path / "asks", script, plugins=[plugin]) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert asked.request.permission == "danger"
    async with open_stage(
        tmp_path / "denies", script, plugins=[plugin], policy=lambda call, ask: "deny"
    ) as at:
        await at.prompt("go")
    (refused,) = [each for each in at.request_messages() if isinstance(each, ToolTurn)]
    assert refused.failed


async def test_a_plugin_that_cannot_start_does_not_stop_the_runtime(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(context: PluginContext) -> PluginHooks:
        raise ValueError("no luck")

    async with open_stage(tmp_path, {"go": [[say("Done.")]]}, plugins=[broken]) as at:
        assert (await at.prompt("go")).text == "Done."
    assert "plugin broken (program) could not start: ValueError: no luck" in caplog.text
