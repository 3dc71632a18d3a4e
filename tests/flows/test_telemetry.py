"""Traces and metrics in the GenAI conventions: one trace, from a launch through a park and a restart."""

import asyncio
from pathlib import Path

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from asyncagents import ToolContext, async_tool
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.id import SessionId
from asyncagents.engine.metrics import MAX_LABELS
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool, Pending, Tool
from asyncagents.errors import AlreadySettled, ToolError
from asyncagents.llm.scripted import ScriptedModel, call, fail, pause, say
from asyncagents.telemetry.metrics import GenAiMetrics
from asyncagents.testing.inside import inside
from tests.support.delegation import call_task, launch_task
from tests.support.runtime import EventListener
from tests.support.telemetry import Collector, open_traced_runtime, parent_of, span_attributes, trace_id
from tests.support.tool import ECHO, NoArguments
from tests.support.wait import PATIENCE, wait_until
from tests.support.webhook.delivery import result_body, standard_headers

FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MODEL = {"gen_ai.provider.name": "scripted", "gen_ai.request.model": "scripted"}


class Jobs:
    """Starts a job elsewhere; remembers what it was told of it."""

    def __init__(self) -> None:
        self.told: list[ToolContext] = []

        async def job(context: ToolContext) -> Pending:
            """Start a job."""
            self.told.append(context)
            return Pending()

        self.tool: AnyTool = async_tool(job)


async def until_still(runtime: Runtime, session_id: SessionId) -> None:
    """Wait until the tree rests and the spans of its runs have ended."""
    async with asyncio.timeout(PATIENCE):
        await runtime.wait_tree(session_id)
    await wait_until(lambda: runtime.live == 0)


def ancestry(collector: Collector, span_id: int | None) -> list[str]:
    """Names from a span up to the root."""
    known = {span.context.span_id: span for span in collector.spans}
    names = []
    while span_id is not None:
        names.append(known[span_id].name)
        span_id = parent_of(known[span_id])
    return names


@pytest.mark.spec("X-08")
async def test_a_launch_a_child_a_park_a_restart_a_webhook_and_the_resume_are_one_trace(
    tmp_path: Path,
) -> None:
    script = {
        "go": [[call_task("work", "do it")], [say("All done.")]],
        "do it": [[call("job")], [say("Did it.")]],
    }
    collector, jobs = Collector(), Jobs()
    with collector.tracer.start_as_current_span("handle order"):
        async with open_traced_runtime(tmp_path, script, collector, jobs.tool) as runtime:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.send(session.id, "go")
            await until_still(runtime, session.id)
    before = len(collector.spans)

    async with open_traced_runtime(tmp_path, script, collector, jobs.tool) as runtime:
        body = result_body(jobs.told[0].pending_id)
        now = int(runtime._clock.now() / 1000)
        with runtime.counters.use_parent(FOREIGN):
            await runtime.async_tools.receive(standard_headers(jobs.told[0].secret, body, now), body)
        await until_still(runtime, session.id)
        assert await runtime.status(session.id) == Idle()
        *_, last = await runtime.messages(session.id)

    assert last.text == "All done."
    host, result = collector.find_span("handle order"), collector.find_span("tool_result job")
    assert {trace_id(span) for span in collector.spans} == {trace_id(host)}
    for agent in ("build", "general"):
        runs = collector.find_spans(f"invoke_agent {agent}")
        *parked, rested = [span_attributes(span)["asyncagents.run.outcome"] for span in runs]
        assert set(parked) == {"parked"}
        assert rested == "done"
    told = ["tool_result job", "chat scripted", "invoke_agent general", "chat scripted", "invoke_agent build"]
    assert [span.name for span in collector.spans[before:]] == told
    job, child = collector.find_span("execute_tool job"), collector.find_spans("invoke_agent general")
    expected = ["execute_tool job", "invoke_agent general", "execute_tool task", "invoke_agent build"]
    assert ancestry(collector, job.context.span_id) == [*expected, "handle order"]
    assert [parent_of(span) for span in child] == [
        collector.find_span("execute_tool task").context.span_id
    ] * 2
    assert parent_of(result) == parent_of(child[0]), "a result belongs to the session that waited for it"
    assert [f"{link.context.trace_id:032x}" for link in result.links] == [FOREIGN[3:35]]


async def test_an_untraced_session_begins_a_trace_that_outlives_its_process(tmp_path: Path) -> None:
    script = {"go": [[call("job")], [say("Done.")]], "again": [[say("Yes.")]]}
    collector, jobs = Collector(), Jobs()
    async with open_traced_runtime(tmp_path, script, collector, jobs.tool) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        assert jobs.told[0].trace is not None
    async with open_traced_runtime(tmp_path, script, collector, jobs.tool) as runtime:
        await runtime.complete(jobs.told[0].call_id, "up")
        await until_still(runtime, session.id)
        await runtime.prompt(session.id, "again")

    first, second, third = collector.find_spans("invoke_agent build")
    assert first.parent is None
    assert parent_of(second) == first.context.span_id
    assert trace_id(first) == trace_id(second) == trace_id(collector.find_span("tool_result job"))
    assert jobs.told[0].trace.split("-")[1] == trace_id(first)
    assert trace_id(third) != trace_id(first), "the next thing that a person says is another trace"
    assert collector.find_span("tool_result job").links == ()


async def test_a_notice_of_a_background_task_continues_the_trace_of_its_launch(tmp_path: Path) -> None:
    script = {"go": [[launch_task("work", "do it")], [say("Launched.")]], "do it": [[say("Did it.")]]}
    collector = Collector()
    async with open_traced_runtime(
        tmp_path, ScriptedModel(script, otherwise=[say("I see.")]), collector
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        await until_still(runtime, session.id)
    assert len({trace_id(span) for span in collector.spans}) == 1
    assert len(collector.find_spans("invoke_agent general")) == 1


async def test_prompts_of_two_callers_are_turns_of_two_traces_and_nothing_leaks_between_them(
    tmp_path: Path,
) -> None:
    collector = Collector()
    async with open_traced_runtime(tmp_path, {}, collector) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        for name in ("first", "second"):
            with collector.tracer.start_as_current_span(name):
                await runtime.prompt(session.id, name)
        with runtime.counters.use_parent(FOREIGN):
            await runtime.prompt(session.id, "third")
        with runtime.counters.use_parent("00-zz-broken"):
            await runtime.prompt(session.id, "fourth")
    one, two, three, four = collector.find_spans("invoke_agent build")
    assert parent_of(one) == collector.find_span("first").context.span_id
    assert parent_of(two) == collector.find_span("second").context.span_id
    assert trace_id(three) == FOREIGN[3:35]
    assert four.parent is None
    assert [parent_of(span) for span in collector.find_spans("chat scripted")] == [
        span.context.span_id for span in (one, two, three, four)
    ]


async def test_a_prompt_during_a_turn_does_not_split_its_trace(tmp_path: Path) -> None:
    script = {"go": [[call("job")], [say("Done.")]], "and": [[say("Sure.")]]}
    collector, jobs = Collector(), Jobs()
    async with open_traced_runtime(tmp_path, script, collector, jobs.tool) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        with runtime.counters.use_parent(FOREIGN):
            await runtime.prompt(session.id, "and")
        await runtime.complete(jobs.told[0].call_id, "up")
        await until_still(runtime, session.id)
    assert len({trace_id(span) for span in collector.spans}) == 1


async def test_spans_carry_the_names_of_the_conventions(tmp_path: Path) -> None:
    collector = Collector()
    async with open_traced_runtime(
        tmp_path, {"go": [[call("echo", text="hi")], [say("Done.")]]}, collector, ECHO
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
    run, tool = collector.find_span("invoke_agent build"), collector.find_span("execute_tool echo")
    chat, _ = collector.find_spans("chat scripted")
    assert [span.kind for span in (run, chat, tool)] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    ]
    assert span_attributes(run) == MODEL | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "build",
        "gen_ai.conversation.id": session.id,
        "asyncagents.turn": 1,
        "asyncagents.run.outcome": "done",
    }
    usage = {name: value for name, value in span_attributes(chat).items() if name.startswith("gen_ai.usage.")}
    assert usage.keys() == {
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
    }
    assert {name: value for name, value in span_attributes(chat).items() if name not in usage} == MODEL | {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "build",
        "gen_ai.conversation.id": session.id,
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("tool-calls",),
    }
    called = span_attributes(tool)
    assert called.pop("gen_ai.tool.call.id")
    assert called.pop("asyncagents.call.id").startswith("tool_")
    assert called == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "build",
        "gen_ai.conversation.id": session.id,
    }


async def test_metrics_record_tokens_and_durations(tmp_path: Path) -> None:
    collector = Collector()
    async with open_traced_runtime(
        tmp_path, {"go": [[call("echo", text="hi")], [say("Done.")]]}, collector, ECHO
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        spent = (await runtime.session(session.id)).tokens
    assert spent is not None
    usage = {
        dict(point.attributes or {})["gen_ai.token.type"]: point
        for point in collector.points("gen_ai.client.token.usage")
    }
    assert {kind: (point.sum, point.count) for kind, point in usage.items()} == {
        "input": (spent.input + spent.cache.read + spent.cache.write, 2),
        "output": (spent.output + spent.reasoning, 2),
    }
    assert usage["input"].explicit_bounds[:4] == (1, 4, 16, 64)
    (operation,) = collector.points("gen_ai.client.operation.duration")
    assert operation.count == 2
    assert dict(operation.attributes or {}) == MODEL | {"gen_ai.operation.name": "chat"}
    (tool,) = collector.points("gen_ai.execute_tool.duration")
    (agent,) = collector.points("gen_ai.invoke_agent.duration")
    assert tool.count == 1
    assert agent.count == 1
    assert dict(agent.attributes or {}) == {"gen_ai.agent.name": "build"}


SECRET = "the magic word is swordfish"


@pytest.mark.parametrize("content", [False, True])
async def test_spans_contain_text_only_if_content_is_enabled(tmp_path: Path, content: bool) -> None:
    async def broken(args: NoArguments, context: ToolContext) -> Pending:
        raise ToolError(f"no: {SECRET}")

    script = {
        SECRET: [
            [say(SECRET), call("echo", text=SECRET)],
            [call("broken")],
            [call("job")],
            [say(SECRET)],
            [fail(SECRET)],
        ]
    }
    collector, jobs = Collector(), Jobs()
    tools = ECHO, jobs.tool, Tool("broken", NoArguments, broken)
    async with open_traced_runtime(tmp_path, script, collector, *tools, content=content) as runtime:
        session = await runtime.create_session(directory=tmp_path, title=SECRET)
        await runtime.prompt(session.id, SECRET)
        await runtime.complete(jobs.told[0].call_id, SECRET)
        await until_still(runtime, session.id)
    text = "".join(span.to_json() for span in collector.spans)
    assert (SECRET in text) is content
    keys = {name for span in collector.spans for name in span_attributes(span)}
    assert keys >= {"error.type"}
    texts = {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    }
    assert keys & texts == (texts if content else set())
    assert any(span.status.status_code is StatusCode.ERROR for span in collector.spans)
    assert not [event for span in collector.spans for event in span.events]


async def test_a_failed_request_is_an_error_span_and_an_aborted_one_is_not(tmp_path: Path) -> None:
    script = {"bad": [[fail("no", status=401)]], "long": [[say("I beg"), pause(3600)]]}
    collector = Collector()
    async with open_traced_runtime(tmp_path, script, collector) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "bad")
            await runtime.send(session.id, "long")
            await EventListener(subscription).until_text("I beg")
            await runtime.abort(session.id)
            await until_still(runtime, session.id)
    failed, stopped = collector.find_spans("chat scripted")
    assert failed.status.status_code == StatusCode.ERROR
    assert span_attributes(failed)["error.type"] == "401"
    assert stopped.status.status_code is StatusCode.UNSET
    outcomes = [
        span_attributes(span)["asyncagents.run.outcome"]
        for span in collector.find_spans("invoke_agent build")
    ]
    assert outcomes == ["error", "aborted"]


async def test_a_repeated_result_is_recorded_in_one_span(tmp_path: Path) -> None:
    collector, jobs = Collector(), Jobs()
    async with open_traced_runtime(
        tmp_path, {"go": [[call("job")], [say("Done.")]]}, collector, jobs.tool
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        await runtime.complete(jobs.told[0].call_id, "up")
        await until_still(runtime, session.id)
        await runtime.complete(jobs.told[0].call_id, "up")
        with pytest.raises(AlreadySettled):
            await runtime.complete(jobs.told[0].call_id, "down")
    assert len(collector.find_spans("tool_result job")) == 1


async def test_a_run_that_is_cut_off_by_a_close_ends_its_span_and_the_next_goes_on_in_its_trace(
    tmp_path: Path,
) -> None:
    collector = Collector()
    async with open_traced_runtime(tmp_path, {"go": [[say("I beg"), pause(3600)]]}, collector) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=tmp_path)
            await runtime.send(session.id, "go")
            await EventListener(subscription).until_text("I beg")
    async with open_traced_runtime(tmp_path, {"go": [[say("Here.")]]}, collector) as runtime:
        await until_still(runtime, session.id)
    cut, again = collector.find_spans("invoke_agent build")
    assert span_attributes(cut)["asyncagents.run.outcome"] == "interrupted"
    assert cut.status.status_code == StatusCode.UNSET
    assert parent_of(again) == cut.context.span_id


class Broken(SpanProcessor):
    """Somebody's, with a mistake in it."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if "chat" in span.name:
            raise RuntimeError("on start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on end")


async def test_a_failing_span_processor_does_not_disturb_the_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector, jobs = Collector(), Jobs()
    collector.tracers.add_span_processor(Broken())
    async with open_traced_runtime(
        tmp_path, {"go": [[call("job")], [say("Done.")]]}, collector, jobs.tool
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        await runtime.complete(jobs.told[0].call_id, "up")
        await until_still(runtime, session.id)
        *_, last = await runtime.messages(session.id)
    assert last.text == "Done."
    assert len({trace_id(span) for span in collector.spans}) == 1
    messages = {record.message for record in caplog.records}
    assert "span action=end failed" in messages
    assert any(message.endswith("action=start failed") for message in messages)


def test_labels_for_invented_agent_names_are_limited() -> None:
    measures = GenAiMetrics((collector := Collector()).meters)
    for number in range(3 * MAX_LABELS):
        measures.record_agent(1.0, {"gen_ai.agent.name": f"agent {number}"})
    assert len(collector.points("gen_ai.invoke_agent.duration")) == MAX_LABELS + 1
