"""Plugins have their word at each point of a turn, and a turn does not depend on it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.trust import distrust_project, trust_project
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolFailed
from asyncagents.domain.event import Event, PartUpdated, PermissionAsked, SessionIdle
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError as Refusal
from asyncagents.llm.model import ChatRequest, Finish, ModelEvent, StepFinish, TextDelta, TextStart, ToolTurn
from asyncagents.llm.scripted import ScriptedModel, call, end, say
from asyncagents.plugins.api import PluginContext, PluginHooks
from asyncagents.testing.inside import inside
from asyncagents.tools.project.projects import Projects
from tests.support.project import HookArguments, build_plugin, open_plugin_project
from tests.support.runtime import EventListener, open_runtime, open_stage
from tests.support.tool import ECHO, NoArguments, TextArguments
from tests.support.wait import PATIENCE


@pytest.mark.spec("A-06")
async def test_a_prompt_is_changed_before_it_is_admitted(tmp_path: Path) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        assert input["sessionID"].startswith("ses_")
        output["parts"][0]["text"] = "go"
        output["parts"].append({"type": "text", "text": "quickly"})
        output["message"]["agent"] = "plan"

    async with open_plugin_project(
        tmp_path, {"go\nquickly": [[say("Ok.")]]}, build_plugin({"chat.message": hook})
    ) as at:
        answer = await at.prompt("come")
        question, _ = await at.messages()
    assert answer.text == "Ok."
    assert isinstance(question.info, UserMessage)
    assert question.info.agent == "plan"
    assert question.text == "go\nquickly"
    assert all(part.id.startswith("prt_") for part in question.parts if isinstance(part, TextPart))


async def test_a_prompt_that_a_hook_makes_invalid_is_admitted_unchanged(tmp_path: Path) -> None:
    def no_parts(input: HookArguments, output: HookArguments) -> None:
        output["parts"].clear()

    def nobody(input: HookArguments, output: HookArguments) -> None:
        output["message"]["agent"] = "nobody"

    def strange(input: HookArguments, output: HookArguments) -> None:
        output["parts"] = [{"type": "tool", "tool": "bash"}]

    plugins = [build_plugin({"chat.message": hook}) for hook in (no_parts, nobody, strange)]
    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, *plugins) as at:
        assert (await at.prompt("go")).text == "Ok."
        question, _ = await at.messages()
        assert isinstance(question.info, UserMessage)
        assert question.info.agent == "build"
        reports = await at.runtime.plugins(tmp_path / "project")
    assert [report.hooks[0].failures for report in reports] == [1, 0, 1]


@pytest.mark.spec("A-06")
async def test_the_request_gets_other_options_and_another_system_text(tmp_path: Path) -> None:
    async def params(input: HookArguments, output: HookArguments) -> None:
        output.update(temperature=0.5, topP=0.25, maxOutputTokens=99)
        output["options"]["seed"] = 7

    def system(input: HookArguments, output: HookArguments) -> None:
        output["system"].append(f"You are {input['agent']}.")

    hooks: PluginHooks = {"chat.params": params, "experimental.chat.system.transform": system}
    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, build_plugin(hooks)) as at:
        await at.prompt("go")
    (request,) = at.model.requests
    options = request.options
    assert options.temperature == 0.5
    assert options.top_p == 0.25
    assert options.max_output == 99
    assert options.body == {"seed": 7}
    assert request.system.endswith("\n\nYou are build.")


@pytest.mark.spec("C-08")
async def test_a_finished_text_is_trimmed_seen_and_changed_before_it_is_stored(tmp_path: Path) -> None:
    seen: list[HookArguments] = []

    async def hook(input: HookArguments, output: HookArguments) -> None:
        seen.append(input | output)
        output["text"] += " Amen."

    script = {"go": [[say("So be it. \n")]]}
    async with open_plugin_project(
        tmp_path, script, build_plugin({"experimental.text.complete": hook})
    ) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)
        (part,) = (part for part in answer.parts if isinstance(part, TextPart))
        ended = [
            event.part
            for event in at.listener.of(PartUpdated)
            if isinstance(event.part, TextPart) and event.part.time and event.part.time.end
        ]
    assert seen == [
        {
            "sessionID": at.session_id,
            "messageID": answer.info.id,
            "partID": part.id,
            "text": "So be it.",
        }
    ]
    assert part.text == "So be it. Amen."
    assert [each.text for each in ended if each.id == part.id] == ["So be it. Amen."]


class Unending(ScriptedModel):
    """Never says that its text is at its end; without a finish it says nothing more at all."""

    def __init__(self, finish: Finish | None) -> None:
        super().__init__({})
        self._finish = finish

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        yield TextStart("t")
        yield TextDelta("t", "I beg ")
        if self._finish is None:
            await asyncio.Event().wait()
        else:
            yield StepFinish(self._finish)


@pytest.mark.spec("C-08")
@pytest.mark.parametrize("finish", ["stop", "length", None])
async def test_a_text_without_an_end_event_is_passed_to_the_hook(
    tmp_path: Path, finish: Finish | None
) -> None:
    seen: list[str] = []

    async def hook(input: HookArguments, output: HookArguments) -> None:
        seen.append(output["text"])
        output["text"] = output["text"].upper()

    config = Config(data_dir=tmp_path)
    plugins = [build_plugin({"experimental.text.complete": hook})]
    async with open_stage(tmp_path, Unending(finish), coding=config, plugins=plugins) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg ")
        assert finish is not None or await at.abort()
        await at.runtime.wait(at.session_id)
        *_, answer = await at.messages()
    assert answer.text == "I BEG"
    assert seen == ["I beg"]


@pytest.mark.spec("A-06")
async def test_a_hook_answers_for_a_person_where_the_rules_ask(tmp_path: Path) -> None:
    asked: list[tuple[str, list[str]]] = []

    async def hook(input: HookArguments, output: HookArguments) -> None:
        asked.append((input["permission"], input["patterns"]))
        output["status"] = "allow" if input["patterns"] == ["a"] else "deny"

    write = [[call("write", filePath=name, content="x")] for name in ("a", "b", "c")]
    rules: HookArguments = {"edit": {"*": "ask", "c": "deny"}}
    plugin = build_plugin({"permission.ask": hook})
    async with open_plugin_project(tmp_path, {"go": [*write, [say("Ok.")]]}, plugin, permission=rules) as at:
        await at.prompt("go")
        states = await at.states()
        assert await at.runtime.asks() == ()
    assert [type(state) for state in states] == [ToolCompleted, ToolFailed, ToolFailed]
    assert asked == [("edit", ["a"]), ("edit", ["b"])]
    assert not (tmp_path / "project" / "c").exists()


@pytest.mark.spec("A-06")
async def test_changed_arguments_are_planned_asked_for_stored_and_shown(tmp_path: Path) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        output["args"]["filePath"] = "b"

    script = {"go": [[call("write", filePath="a", content="x")], [say("Ok.")]]}
    plugin = build_plugin({"tool.execute.before": hook})
    async with open_plugin_project(tmp_path, script, plugin, permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert asked.request.patterns == ("b",)
        await at.runtime.answer(asked.request.id, "once")
        await at.runtime.wait(at.session_id)
        (state,) = await at.states()
    assert state.input["filePath"] == "b"
    assert (tmp_path / "project" / "b").exists()
    assert not (tmp_path / "project" / "a").exists()


@pytest.mark.spec("A-06")
@pytest.mark.parametrize("error", [ValueError("Not on a Sunday."), Refusal("Not on a Sunday.")])
async def test_a_hook_that_raises_before_a_call_refuses_it_with_its_message(
    tmp_path: Path, error: Exception
) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        if output["args"]["text"] == "no":
            raise error

    script = {"go": [[call("echo", text="no"), call("echo", text="yes")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, build_plugin({"tool.execute.before": hook})) as at:
        assert (await at.prompt("go")).text == "Ok."
        refused, done = await at.states()
    assert isinstance(refused, ToolFailed)
    assert isinstance(done, ToolCompleted)
    assert refused.error == "Not on a Sunday."
    assert done.output == "yes"


@pytest.mark.spec("A-06", "X-11")
async def test_a_call_is_prepared_once_over_an_ask_a_restart_and_its_approval(tmp_path: Path) -> None:
    calls: list[str] = []

    async def hook(input: HookArguments, output: HookArguments) -> None:
        calls.append(input["callID"])
        output["args"]["content"] += "!"

    script = {"go": [[call("write", filePath="a", content="x")], [say("Ok.")]]}
    plugin = build_plugin({"tool.execute.before": hook})
    async with open_plugin_project(tmp_path, script, plugin, permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
    config = Config(data_dir=tmp_path / "data", permission={"edit": "ask"})
    model = ScriptedModel(script)
    async with open_runtime(tmp_path / "data", model=model, coding=config, plugins=[plugin]) as runtime:
        await runtime.answer(asked.request.id, "once")
        async with asyncio.timeout(PATIENCE):
            await runtime.wait(at.session_id)
    assert len(calls) == 1
    assert (tmp_path / "project" / "a").read_text() == "x!"


@pytest.mark.spec("A-06", "X-11")
async def test_a_call_that_died_while_it_ran_runs_again_as_it_was_prepared(tmp_path: Path) -> None:
    started, runs, prepared = asyncio.Event(), [], []

    async def run(args: TextArguments, context: ToolContext) -> Completed:
        runs.append(args.text)
        if len(runs) == 1:
            started.set()
            await asyncio.Event().wait()
        return Completed(args.text)

    async def hook(input: HookArguments, output: HookArguments) -> None:
        prepared.append(input["callID"])
        output["args"]["text"] += "!"

    tool: Tool[TextArguments] = Tool("again", TextArguments, run, effect="idempotent")
    script = {"go": [[call("again", text="x")], [say("Ok.")]]}
    options: HookArguments = {
        "coding": Config(data_dir=tmp_path),
        "tools": [tool],
        "plugins": [build_plugin({"tool.execute.before": hook})],
    }
    async with open_stage(tmp_path, script, **options) as at:
        await at.runtime.send(at.session_id, "go")
        await started.wait()
    async with open_runtime(tmp_path, model=ScriptedModel(script), **options) as runtime:
        async with asyncio.timeout(PATIENCE):
            await runtime.wait(at.session_id)
    assert runs == ["x!", "x!"]
    assert len(prepared) == 1


@pytest.mark.spec("A-06", "X-11")
async def test_a_call_that_was_prepared_and_never_started_is_not_prepared_again(tmp_path: Path) -> None:
    planning = asyncio.Event()
    prepared: list[str] = []

    async def plan(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
        planning.set()
        if len(prepared) == 1 and not reopened:
            await asyncio.Event().wait()
        return ()

    async def run(args: TextArguments, context: ToolContext) -> Completed:
        return Completed(args.text)

    async def hook(input: HookArguments, output: HookArguments) -> None:
        prepared.append(input["callID"])
        output["args"]["text"] += "!"

    reopened = False
    tool: Tool[TextArguments] = Tool("again", TextArguments, run, plan=plan)
    script = {"go": [[call("again", text="x")], [say("Ok.")]]}
    options: HookArguments = {
        "coding": Config(data_dir=tmp_path),
        "tools": [tool],
        "plugins": [build_plugin({"tool.execute.before": hook})],
    }
    async with open_stage(tmp_path, script, **options) as at:
        await at.runtime.send(at.session_id, "go")
        await planning.wait()
    reopened = True
    model = ScriptedModel(script)
    async with open_runtime(tmp_path, model=model, **options) as runtime:
        async with asyncio.timeout(PATIENCE):
            await runtime.wait(at.session_id)
        *_, last = await runtime.messages(at.session_id)
    assert len(prepared) == 1
    assert last.text == "Ok."
    assert [told.output for told in model.requests[-1].messages if isinstance(told, ToolTurn)] == ["x!"]


@pytest.mark.spec("A-04", "A-06")
async def test_arguments_from_a_person_are_not_changed_by_a_hook(tmp_path: Path) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        output["args"]["content"] = "of a hook"

    script = {"go": [[call("write", filePath="a", content="of the model")], [say("Ok.")]]}
    plugin = build_plugin({"tool.execute.before": hook})
    async with open_plugin_project(tmp_path, script, plugin, permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        mine = {"filePath": "a", "content": "of a person"}
        await at.runtime.answer(asked.request.id, "once", input=mine)
        await at.runtime.wait(at.session_id)
    assert (tmp_path / "project" / "a").read_text() == "of a person"


async def test_an_approval_does_not_cover_arguments_that_a_new_plugin_changes(tmp_path: Path) -> None:
    """The plugin was installed while the ask was open."""

    async def hook(input: HookArguments, output: HookArguments) -> None:
        output["args"]["content"] = "evil"

    script = {"go": [[call("write", filePath="a", content="good")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
    config = Config(data_dir=tmp_path / "data", permission={"edit": "ask"})
    async with open_runtime(
        tmp_path / "data",
        model=at.model,
        coding=config,
        plugins=[build_plugin({"tool.execute.before": hook})],
    ) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            await runtime.answer(asked.request.id, "once")
            again = await EventListener(subscription).until(PermissionAsked)
            assert "evil" in again.request.metadata["diff"]
            await runtime.answer(again.request.id, "reject")
            await runtime.wait(at.session_id)
    assert not (tmp_path / "project" / "a").exists()


async def test_a_repeated_call_asks_for_doom_loop_although_a_hook_changes_it(tmp_path: Path) -> None:
    count = 0

    async def hook(input: HookArguments, output: HookArguments) -> None:
        nonlocal count
        count += 1
        output["args"]["text"] += str(count)

    steps = [[call("echo", text="x")] for _ in range(3)]
    async with open_plugin_project(
        tmp_path, {"go": [*steps, [say("Ok.")]]}, build_plugin({"tool.execute.before": hook})
    ) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.abort()
    assert asked.request.permission == "doom_loop"


@pytest.mark.spec("A-06")
async def test_a_result_is_changed_before_it_is_written(tmp_path: Path) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        assert input["tool"] == "echo"
        assert input["args"] == {"text": "x"}
        output.update(title="T", output=output["output"] + "y", metadata={"k": 1})

    script = {"go": [[call("echo", text="x")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, build_plugin({"tool.execute.after": hook})) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    assert state.title == "T"
    assert state.output == "xy"
    assert state.metadata == {"k": 1}


@pytest.mark.spec("A-06")
async def test_variables_of_a_hook_reach_a_command_despite_an_invalid_one(tmp_path: Path) -> None:
    async def hook(input: HookArguments, output: HookArguments) -> None:
        output["env"]["GREETING"] = "hello"

    async def spoils(input: HookArguments, output: HookArguments) -> None:
        output["env"]["A=B"] = "x"

    script = {"go": [[call("bash", command="echo $GREETING")], [say("Ok.")]]}
    plugins = [build_plugin({"shell.env": each}) for each in (hook, spoils)]
    async with open_plugin_project(
        tmp_path, script, *plugins, permission={"*": "allow", "unclear_command": "allow"}
    ) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    assert state.output == "hello"


@pytest.mark.spec("A-06")
async def test_a_hook_changes_the_configuration_before_agents_are_built(tmp_path: Path) -> None:
    def hook(config: Config) -> Config:
        return replace(config, default_agent="plan")

    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, build_plugin({"config": hook})) as at:
        await at.prompt("go")
        question, _ = await at.messages()
    assert isinstance(question.info, UserMessage)
    assert question.info.agent == "plan"


@pytest.mark.spec("A-06")
async def test_a_plugin_gets_events_of_sessions_of_its_own_directory_only(tmp_path: Path) -> None:
    heard: list[Event] = []
    idle = asyncio.Event()

    async def hook(event: Event) -> None:
        heard.append(event)
        if isinstance(event, SessionIdle):
            idle.set()

    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, build_plugin({"event": hook})) as at:
        await at.runtime.workplace(tmp_path / "project")
        other = await at.runtime.create_session(directory=tmp_path)
        await at.prompt("go")
        async with asyncio.timeout(PATIENCE):
            await idle.wait()
    assert {event.session_id for event in heard} == {at.session_id}
    assert other.id not in {event.session_id for event in heard}


async def test_a_plugin_gets_an_event_once_after_repeated_changes_of_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    heard: asyncio.Queue[str | None] = asyncio.Queue()

    async def hook(event: Event) -> None:
        if isinstance(event, SessionIdle):
            await heard.put(event.session_id)

    root, environment = tmp_path / "project", system_environment()
    files = {".asyncagents/tools/none.py": ""}
    async with open_plugin_project(tmp_path, {}, build_plugin({"event": hook}), files=files) as at:
        projects = at.runtime._workplaces
        assert isinstance(projects, Projects)
        for change in (trust_project, distrust_project, trust_project):
            await projects.open_project(str(root))
            change(environment, root)
        await projects.open_project(str(root))
        async with asyncio.timeout(PATIENCE):
            for prompt in ("one", "two", "three"):
                await at.prompt(prompt)
                await heard.get()
    assert heard.empty()


@pytest.mark.spec("A-06")
async def test_a_plugin_brings_tools_and_may_replace_a_built_in_one(tmp_path: Path) -> None:
    async def run(args: NoArguments, context: ToolContext) -> Completed:
        return Completed("mine")

    hooks: PluginHooks = {"tool": {"greet": ECHO, "list": Tool("list", NoArguments, run)}}
    script = {"go": [[call("greet", text="hi"), call("list")], [say("Ok.")]]}
    async with open_plugin_project(tmp_path, script, build_plugin(hooks)) as at:
        await at.prompt("go")
        states = await at.states()
        (report,) = await at.runtime.plugins(tmp_path / "project")
    assert [state.output for state in states if isinstance(state, ToolCompleted)] == ["hi", "mine"]
    assert report.tools == ("greet", "list")
    assert report.overrides == ("list",)
    names = [tool.name for tool in at.model.requests[0].tools]
    assert names.index("list") == 1
    assert names.count("list") == 1


@pytest.mark.spec("A-09")
async def test_a_plugin_context_has_its_directory_the_runtime_and_a_shell(tmp_path: Path) -> None:
    contexts: list[PluginContext] = []

    async def plugin(context: PluginContext) -> PluginHooks:
        contexts.append(context)
        return {}

    async with open_plugin_project(tmp_path, {"go": [[say("Ok.")]]}, plugin) as at:
        await at.prompt("go")
        await at.prompt("go")
        (context,) = contexts
        session = await context.client.session(at.session_id)
        ran = await context.shell("pwd; exit 3")
        slow = await context.shell("sleep 60", timeout=0.1)
    root = str(tmp_path / "project")
    assert context.directory == root
    assert context.worktree == root
    assert context.server_url is None
    assert context.project.id == session.project_id
    assert context.options == {}
    assert ran.output.strip() == root
    assert ran.exit == 3
    assert slow.timed_out is True


async def test_without_plugins_there_are_no_hooks(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("Ok."), end("stop")]]}) as at:
        assert await at.runtime.plugins() == ()
