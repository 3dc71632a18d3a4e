"""A plugin that raises, hangs, swallows its cancel or leaves nonsense is reported, and the turn goes on."""

import asyncio
import logging
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.config.config import AgentConfig, CommandConfig, Config, ModelConfig, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import MessageAbortedError
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolPart
from asyncagents.domain.event import Event
from asyncagents.engine.workplace.hooks import HookName
from asyncagents.llm.scripted import Script, ScriptedModel, call, pause, say
from asyncagents.plugins.api import Hook, PluginContext, PluginHooks
from asyncagents.plugins.config_check import check_config
from asyncagents.plugins.hook_health import MOST_HANGS
from tests.support.project import HookArguments, build_plugin, open_plugin_project
from tests.support.runtime import Stage, answer_of, open_runtime
from tests.support.tool import ECHO
from tests.support.wait import PATIENCE

SCRIPT: Script = {
    "go": [[say("First. "), call("echo", text="x"), call("echo", text="y")], [say("Done.\n")]],
    "on": [[call("todoread")], [say("On.")]],
}
SHORT = 0.02

CHANGING: tuple[HookName, ...] = (
    "chat.message",
    "chat.params",
    "permission.ask",
    "tool.execute.before",
    "tool.execute.after",
    "experimental.chat.system.transform",
    "experimental.text.complete",
)


async def said(at: Stage) -> list[object]:
    """All that people see of a session, without ids and times."""
    found: list[object] = []
    for entry in await at.messages():
        for part in entry.parts:
            if isinstance(part, TextPart):
                found.append(part.text)
            elif isinstance(part, ToolPart) and isinstance(part.state, ToolCompleted):
                found.append((part.tool, part.state.input, part.state.output, part.state.title))
    return found


async def exits(input: HookArguments, output: HookArguments) -> None:
    raise SystemExit(3)


def interrupts(input: HookArguments, output: HookArguments) -> None:
    raise KeyboardInterrupt


async def cancels_itself(input: HookArguments, output: HookArguments) -> None:
    raise asyncio.CancelledError


async def hangs(input: HookArguments, output: HookArguments) -> None:
    await asyncio.Event().wait()


def hangs_in_a_thread(input: HookArguments, output: HookArguments) -> None:
    threading.Event().wait()


async def swallows(input: HookArguments, output: HookArguments) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def leaves_nonsense(input: HookArguments, output: HookArguments) -> None:
    input.clear()
    for key in output:
        output[key] = object()


async def leaves_half_a_character(input: HookArguments, output: HookArguments) -> None:
    for key in output:
        output[key] = "\ud800"


async def leaves_itself(input: HookArguments, output: HookArguments) -> None:
    for key in output:
        output[key] = output


async def raises(input: HookArguments, output: HookArguments) -> None:
    output.clear()
    raise LookupError("a hook with a bug")


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit


async def raises_the_unspeakable(input: HookArguments, output: HookArguments) -> None:
    raise Silent


BAD: tuple[Hook, ...] = (
    exits,
    interrupts,
    cancels_itself,
    hangs,
    hangs_in_a_thread,
    swallows,
    leaves_nonsense,
    leaves_half_a_character,
    leaves_itself,
    raises,
    raises_the_unspeakable,
)
MAY_REFUSE = (raises, raises_the_unspeakable)


async def without_plugins(tmp_path: Path) -> list[object]:
    async with open_plugin_project(tmp_path / "plain", SCRIPT) as at:
        await at.prompt("go")
        await at.prompt("on")
        return await said(at)


@pytest.mark.spec("A-06", "C-08")
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
async def test_a_turn_ends_as_it_would_without_a_hook_that_fails_everywhere(
    tmp_path: Path, bad: Hook
) -> None:
    hooks: Any = {name: bad for name in CHANGING if name != "tool.execute.before" or bad not in MAY_REFUSE}
    async with open_plugin_project(tmp_path, SCRIPT, build_plugin(hooks), hook_seconds=SHORT) as at:
        assert (await at.prompt("go")).text == "Done."
        await at.prompt("on")
        happened = await said(at)
        (report,) = await at.runtime.plugins(tmp_path / "project")
    assert happened == await without_plugins(tmp_path)
    assert all(hook.failures for hook in report.hooks if hook.hook != "permission.ask")


@pytest.mark.spec("A-06")
@pytest.mark.parametrize("seed", range(6))
async def test_plugins_that_fail_at_random_change_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def good(input: HookArguments, output: HookArguments) -> None:
        """Says nothing."""

    def drawn() -> PluginHooks:
        hooks: PluginHooks = {}
        for name in CHANGING:
            allowed = [b for b in BAD if name != "tool.execute.before" or b not in MAY_REFUSE]
            hooks[name] = rng.choice([good, *allowed])
        return hooks

    plugins = [build_plugin(drawn()) for _ in range(3)]
    async with open_plugin_project(tmp_path, SCRIPT, *plugins, hook_seconds=SHORT) as at:
        await at.prompt("go")
        await at.prompt("on")
        happened = await said(at)
    assert happened == await without_plugins(tmp_path)


async def test_invalid_output_of_a_hook_is_not_passed_to_the_next_plugin(tmp_path: Path) -> None:
    seen: list[str] = []

    async def spoils(input: HookArguments, output: HookArguments) -> None:
        output["text"] = 7

    async def looks(input: HookArguments, output: HookArguments) -> None:
        seen.append(output["text"])
        output["text"] += "!"

    plugins = [build_plugin({"experimental.text.complete": hook}) for hook in (spoils, looks)]
    async with open_plugin_project(tmp_path, {"go": [[say("Hi")]]}, *plugins) as at:
        assert (await at.prompt("go")).text == "Hi!"
    assert seen == ["Hi"]


async def test_a_change_to_hook_output_after_the_return_has_no_effect(tmp_path: Path) -> None:
    kept: list[HookArguments] = []

    async def hook(input: HookArguments, output: HookArguments) -> None:
        kept.append(output)
        kept.append(input)

    script = {"go": [[call("echo", text="x")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, build_plugin({"tool.execute.after": hook})) as at:
        await at.prompt("go")
        kept[0]["output"] = kept[1]["args"]["text"] = "late"
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    assert state.output == "x"
    assert state.input == {"text": "x"}


@pytest.mark.spec("A-06")
async def test_a_hook_that_keeps_hanging_is_switched_off_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = 0

    async def hook(input: HookArguments, output: HookArguments) -> None:
        nonlocal times
        times += 1
        await asyncio.Event().wait()

    script = {
        "go": [[say(str(number)), call("echo", text=str(number))] for number in range(5)] + [[say("Ok.")]]
    }
    plugin = build_plugin({"experimental.text.complete": hook})
    with caplog.at_level(logging.WARNING, "asyncagents.plugins"):
        async with open_plugin_project(tmp_path, script, plugin, hook_seconds=SHORT) as at:
            assert (await at.prompt("go")).text == "Ok."
            (report,) = await at.runtime.plugins(tmp_path / "project")
    (health,) = report.hooks
    assert times == MOST_HANGS
    assert health.failures == MOST_HANGS
    assert health.off is True
    told = [record.getMessage() for record in caplog.records if record.name == "asyncagents.plugins"]
    assert len(told) == 2
    assert f"did not end within {SHORT} s" in told[0]
    assert "off until the next start" in told[1]


async def test_an_error_of_a_hook_is_logged_once_and_counted_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = [[say(str(number)), call("echo", text=str(number))] for number in range(3)]
    plugin = build_plugin({"experimental.text.complete": raises})
    with caplog.at_level(logging.WARNING, "asyncagents.plugins"):
        async with open_plugin_project(tmp_path, {"go": [*steps, [say("Ok.")]]}, plugin) as at:
            await at.prompt("go")
            (report,) = await at.runtime.plugins(tmp_path / "project")
    told = [record.getMessage() for record in caplog.records if record.name == "asyncagents.plugins"]
    assert told == ["plugin=plugin hook=experimental.text.complete raised LookupError: a hook with a bug"]
    assert [(hook.calls, hook.failures, hook.off) for hook in report.hooks] == [(4, 4, False)]


@pytest.mark.parametrize("bad", [hangs, hangs_in_a_thread, swallows], ids=lambda bad: bad.__name__)
async def test_an_abort_does_not_wait_for_a_hook_that_hangs(tmp_path: Path, bad: Hook) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def plugin(context: PluginContext) -> PluginHooks:
        async def before(input: HookArguments, output: HookArguments) -> None:
            started.set()
            result = bad(input, output)
            if result is not None:
                await result

        def before_in_a_thread(input: HookArguments, output: HookArguments) -> None:
            loop.call_soon_threadsafe(started.set)
            bad(input, output)

        return {"tool.execute.before": before_in_a_thread if bad is hangs_in_a_thread else before}

    script = {"go": [[call("echo", text="x")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, plugin, hook_seconds=3600) as at:
        await at.runtime.send(at.session_id, "go")
        async with asyncio.timeout(PATIENCE):
            await started.wait()
            assert await at.abort()


async def test_an_abort_does_not_wait_for_a_compacting_hook_that_hangs(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hook(input: HookArguments, output: HookArguments) -> None:
        started.set()
        await hangs(input, output)

    plugin = build_plugin({"experimental.session.compacting": hook})
    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, plugin, hook_seconds=3600) as at:
        await at.prompt("go")
        await at.runtime.send(at.session_id, "/compact")
        async with asyncio.timeout(PATIENCE):
            await started.wait()
            assert await at.abort()
        *_, summary = await at.messages()
    assert isinstance(answer_of(summary).error, MessageAbortedError)
    assert len(at.model.requests) == 1


async def test_an_abort_does_not_wait_for_a_text_hook_that_hangs(tmp_path: Path) -> None:
    plugin = build_plugin({"experimental.text.complete": hangs})
    async with open_plugin_project(
        tmp_path, {"go": [[say("I beg"), pause(3600)]]}, plugin, hook_seconds=3600
    ) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
        assert await at.abort()
        *_, answer = await at.messages()
    assert answer.text == "I beg"


async def test_a_slow_plugin_starts_once_although_the_first_caller_is_cancelled(tmp_path: Path) -> None:
    starts = 0
    started, go = asyncio.Event(), asyncio.Event()

    async def plugin(context: PluginContext) -> PluginHooks:
        nonlocal starts
        starts += 1
        started.set()
        await go.wait()
        return {}

    async with open_plugin_project(tmp_path, SCRIPT, plugin) as at:
        asking = asyncio.get_running_loop().create_task(at.runtime.plugins(tmp_path / "project"))
        await started.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go.set()
        (report,) = await at.runtime.plugins(tmp_path / "project")
    assert starts == 1
    assert report.error is None


async def test_a_runtime_closes_although_a_hook_will_not_end(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hook(event: Event) -> None:
        started.set()
        await swallows({}, {})

    async with open_plugin_project(tmp_path, SCRIPT, build_plugin({"event": hook}), hook_seconds=3600) as at:
        await at.prompt("go")
        async with asyncio.timeout(PATIENCE):
            await started.wait()


def test_a_process_ends_although_a_hook_swallows_every_cancel(tmp_path: Path) -> None:
    async def main() -> str:
        plugin = build_plugin({"experimental.text.complete": swallows, "chat.params": hangs_in_a_thread})
        config = Config(data_dir=tmp_path, hook_seconds=SHORT)
        model = ScriptedModel({"go": [[say("Ok.")]]})
        async with open_runtime(tmp_path, model=model, coding=config, plugins=[plugin]) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            return (await runtime.prompt(session.id, "go")).text

    assert asyncio.run(main()) == "Ok."


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "returned NoneType: a plugin returns its hooks, by name"),
        (
            {"tool.execute.befor": raises},
            "has a hook 'tool.execute.befor': did you mean 'tool.execute.before'?",
        ),
        ({"chat.params": 7}, "has a hook chat.params that is not a function"),
        ({"tool": {"x": raises}}, "has tools that are not tools"),
        ({"tool": 7}, "has tools that are not tools"),
    ],
)
async def test_a_plugin_that_returns_invalid_hooks_is_listed_with_the_error(
    tmp_path: Path, returned: Any, why: str
) -> None:
    async with open_plugin_project(tmp_path, SCRIPT, build_plugin(returned)) as at:
        await at.prompt("go")
        (report,) = await at.runtime.plugins(tmp_path / "project")
    assert report.error is not None
    assert why in report.error


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), ValueError("no")]
)
async def test_a_plugin_that_cannot_start_does_not_stop_the_others(
    tmp_path: Path, error: BaseException
) -> None:
    async def broken(context: PluginContext) -> PluginHooks:
        raise error

    async def changes(input: HookArguments, output: HookArguments) -> None:
        output["text"] += "!"

    works = build_plugin({"experimental.text.complete": changes})
    async with open_plugin_project(tmp_path, {"go": [[say("Hi")]]}, broken, works) as at:
        assert (await at.prompt("go")).text == "Hi!"
        first, second = await at.runtime.plugins(tmp_path / "project")
    assert first.error is not None
    assert first.error.startswith("could not start: ")
    assert second.error is None


async def test_a_config_hook_cannot_change_the_configuration_in_place(tmp_path: Path) -> None:
    def spoils(config: Config) -> None:
        config.permission["write"] = config.permission["edit"] = "allow"
        raise ValueError("and then this")

    script = {"go": [[call("write", filePath="a", content="x")], [say("Ok.")]]}
    async with open_plugin_project(
        tmp_path, script, build_plugin({"config": spoils}), permission={"edit": "deny"}
    ) as at:
        assert (await at.prompt("go")).text == "Ok."
    assert not (tmp_path / "project" / "a").exists()


@pytest.mark.parametrize("bad", [lambda config: 7, lambda config: 1 / 0, lambda config: None])
async def test_a_turn_works_after_a_config_hook_raises_or_returns_no_config(
    tmp_path: Path, bad: Callable[[Config], Any]
) -> None:
    async with open_plugin_project(tmp_path, {"go": [[say("Hi")]]}, build_plugin({"config": bad})) as at:
        assert (await at.prompt("go")).text == "Hi"


@pytest.mark.parametrize(
    "bad",
    [
        {"agent": None},
        {"agent": {"build": AgentConfig(steps="3")}},  # type: ignore[arg-type]
        {"agent": {"build": AgentConfig(model="a/b")}},  # type: ignore[arg-type]
        {"permission": "allow"},
        {"permission": {"bash": 7}},
        {"mcp": {"kit": {"command": ["x"]}}},
        {"compaction": None},
        {"default_agent": 3},
        {"command": {"go": CommandConfig(template=None)}},  # type: ignore[arg-type]
        {"experimental": {"it": object()}},
    ],
    ids=lambda bad: "-".join(bad),
)
async def test_a_config_hook_result_with_values_of_wrong_types_is_rejected(
    tmp_path: Path, bad: dict[str, Any]
) -> None:
    plugin = build_plugin({"config": lambda config: replace(config, **bad)})
    async with open_plugin_project(tmp_path, {"go": [[say("Hi")]]}, plugin) as at:
        assert (await at.prompt("go")).text == "Hi"
        (report,) = await at.runtime.plugins(tmp_path / "project")
    assert "config returns a Config" in (report.hooks[0].last or "")


async def test_check_config_keeps_valid_values_and_converts_agents(tmp_path: Path) -> None:
    provider = {"own": ProviderConfig(api_key=Secret("sk-own"), models={"m": ModelConfig()})}
    config = Config(
        data_dir=tmp_path,
        model=ModelRef(provider_id="own", model_id="m"),
        provider=provider,
        agent={"build": AgentConfig(permission={"bash": {"*": "ask", "ls *": "allow"}})},
    )
    assert check_config(config) == config
    changed = check_config(replace(config, agent={"new": {"prompt": "Be new."}}))
    assert changed.agent == {"new": AgentConfig(prompt="Be new.")}


async def test_a_plugin_that_is_loaded_without_a_runtime_has_no_client(tmp_path: Path) -> None:
    """As when plugins are only listed."""
    from asyncagents.config.env import system_environment
    from asyncagents.errors import Closed
    from asyncagents.plugins.plugins import Plugins

    async def plugin(context: PluginContext) -> PluginHooks:
        with pytest.raises(Closed):
            _ = context.client
        return {"tool": [ECHO]}

    plugins = Plugins(system_environment(), output=tmp_path, own=[plugin])
    config = Config(data_dir=tmp_path)
    found = plugins.find(str(tmp_path), config, trusted=False)
    assert found is not None
    additions = await plugins.load(found, config)
    await plugins.end()
    assert [added.tool.name for added in additions.tools] == ["echo"]
    assert [report.error for report in additions.hooks.reports()] == [None]
