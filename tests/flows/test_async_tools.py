"""Async tools: parked, shut down, and resumed once by a result, a failure, a cancel or a deadline."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents import (
    AlreadySettled,
    Completed,
    InvalidInput,
    NotFound,
    Pending,
    ResultRefused,
    Secret,
    ToolContext,
    ToolError,
    ToolResult,
    async_tool,
)
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import AsyncToolsConfig
from asyncagents.domain.call.call import CANCELLED, START_UNSURE, TIMED_OUT, Open
from asyncagents.domain.conversation.part import ToolCompleted, ToolPart, ToolWaiting
from asyncagents.domain.conversation.part import ToolFailed as ErrorState
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import AsyncToolExpiring, SessionIdle
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import Conflict, Unavailable
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import EventListener, Stage, open_sqlite_runtime, open_stage
from tests.support.wait import PATIENCE

SCRIPT = {"ship": [[call("deploy", target="staging")], [say("Shipped.")]]}
HOUR = 3_600_000


@async_tool
async def deploy(target: str) -> Pending:
    """Deploy to a machine."""
    return Pending(note=f"queued {target}", external_ref="job-7", estimated_seconds=300)


def results(at: Stage) -> list[str]:
    return [told.output for told in at.request_messages() if isinstance(told, ToolTurn)]


def kept(data: Path) -> bytes:
    return b"".join(each.read_bytes() for each in data.glob("asyncagents.db*"))


def world(model: ScriptedModel, *tools: AnyTool) -> Setup:
    return Setup(model=model, open_workplaces=fixed_tools(tools))


@pytest.mark.spec("P-01")
async def test_a_pending_call_shows_all_its_fields_and_stores_no_secret(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        answer = await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        status = await at.status()
        secrets = await at.runtime.async_tools.secrets(waiting.id)
    (part,) = (part for part in answer.parts if isinstance(part, ToolPart))

    assert isinstance(part.state, ToolWaiting)
    assert part.state.pending_id == waiting.id
    assert part.state.output == "queued staging"
    assert isinstance(status, WaitingAsync)
    assert status.pending_id == waiting.id
    assert status.tool == "deploy"
    assert status.timeout == waiting.timeout
    assert (waiting.session_id, waiting.message_id, waiting.part_id) == (
        at.session_id, answer.info.id, part.id,
    )  # fmt: skip
    assert waiting.call_id == part.call_id
    assert waiting.tool == "deploy"
    assert waiting.input == {"target": "staging"}
    assert (waiting.status, waiting.external_ref, waiting.estimated_duration) == (
        "waiting", "job-7", 300_000,
    )  # fmt: skip
    assert waiting.timeout is not None
    assert waiting.time.started is not None
    assert waiting.timeout - waiting.time.started >= 24 * HOUR
    assert waiting.time.completed is None
    assert waiting.result is None
    assert waiting.error is None
    assert secrets
    assert not [secret for secret in secrets if secret.reveal().encode() in kept(tmp_path)]


@pytest.mark.spec("P-02")
async def test_pending_ids_share_nothing_but_their_time(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy", target=each) for each in "abc"]]}
    async with open_stage(tmp_path, script, tools=[deploy]) as at:
        await at.prompt("ship")
        waiting = await at.runtime.async_tools.waiting_calls()

    random = {each.id.removeprefix("tool_")[12:] for each in waiting}
    assert len(random) == 3
    assert all(len(each) == 14 and each.isalnum() for each in random)


@pytest.mark.spec("P-05", "C-10")
async def test_a_result_after_an_abort_without_a_worker_is_refused_and_wakes_nothing(tmp_path: Path) -> None:
    """The model had been told that the call is pending, so a result would reach it as new input."""
    model = ScriptedModel({**SCRIPT, "well?": [[say("It is still being deployed.")]]})
    async with open_stage(tmp_path, model, tools=[deploy]) as at:
        await at.prompt("ship")
        await at.prompt("well?")
        session_id = at.session_id
    asked = len(model.requests)
    async with open_stage(tmp_path, ScriptedModel({}), serve=False) as outside:
        (waiting,) = await outside.runtime.async_tools.waiting_calls(session_id)
        assert await outside.runtime.abort(session_id)
        assert not await outside.runtime.async_tools.waiting_calls(session_id)
        with pytest.raises(AlreadySettled, match="aborted"):
            await outside.runtime.async_tools.submit_result(waiting.id, "v2 is live")
    async with open_stage(tmp_path, model, tools=[deploy]) as at:
        assert await at.runtime.wait(session_id) == Idle()
    assert len(model.requests) == asked


@pytest.mark.spec("P-04", "P-15")
async def test_a_result_completes_the_part_and_resumes_in_a_process_started_later(tmp_path: Path) -> None:
    model = ScriptedModel(SCRIPT)
    async with open_stage(tmp_path, model, tools=[deploy]) as at:
        await at.prompt("ship")
        session_id = at.session_id
    async with open_stage(tmp_path, ScriptedModel({}), serve=False) as outside:
        (waiting,) = await outside.runtime.async_tools.waiting_calls(session_id)
        settled = await outside.runtime.async_tools.submit_result(
            waiting.id, "v2 is live", title="Deployed", metadata={"url": "https://example.test"}
        )
        assert not model.requests[1:]
    async with open_stage(tmp_path, model, tools=[deploy]) as later:
        await later.listener.until(SessionIdle, lambda event: event.session_id == session_id)
        entries = await later.runtime.messages(session_id)
        listed = await later.runtime.async_tools.list("completed")

    (state,) = (part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart))
    assert isinstance(state, ToolCompleted)
    assert (state.output, state.title, state.metadata) == (
        "v2 is live", "Deployed", {"url": "https://example.test"},
    )  # fmt: skip
    assert state.time.end == settled.time.completed
    assert settled.status == "completed"
    assert listed == (settled,)
    assert settled.result == ToolResult(
        title="Deployed", output="v2 is live", metadata={"url": "https://example.test"}
    )
    assert entries[-1].text == "Shipped."
    assert len(model.requests) == 2


@pytest.mark.spec("P-04")
async def test_several_calls_of_a_step_may_be_settled_in_any_order_and_resume_it_once(tmp_path: Path) -> None:
    script = {"ship": [[call("deploy", target=each) for each in "abcde"], [say("Shipped.")]]}
    async with open_stage(tmp_path, script, tools=[deploy]) as at:
        await at.prompt("ship")
        waiting = await at.runtime.async_tools.waiting_calls(at.session_id)
        order = [waiting[i] for i in (3, 0, 4, 2)]
        for each in order:
            await at.runtime.async_tools.submit_result(each.id, each.input["target"])
        assert len(at.model.requests) == 1
        await at.runtime.async_tools.submit_error(waiting[1].id, "no room")
        await at.listener.until(SessionIdle)

    assert results(at) == ["a", "no room", "c", "d", "e"]
    assert len(at.model.requests) == 2


@pytest.mark.spec("P-05")
async def test_the_same_result_again_is_answered_alike_and_another_names_the_first(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        submit = at.runtime.async_tools.submit_result
        first, again = await asyncio.gather(
            submit(waiting.id, "v2", metadata={"a": (1, 2)}), submit(waiting.id, "v2", metadata={"a": [1, 2]})
        )
        with pytest.raises(AlreadySettled, match="v2"):
            await submit(waiting.id, "v2")
        with pytest.raises(AlreadySettled, match="v2"):
            await at.runtime.async_tools.cancel(waiting.id)
        await at.listener.until(SessionIdle)
        assert await submit(waiting.id, "v2", metadata={"a": [1, 2]}) == first

    assert first == again
    assert len(at.model.requests) == 2


@pytest.mark.spec("P-05")
async def test_an_unknown_id_a_deleted_session_and_an_invalid_result_are_refused(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        tools = at.runtime.async_tools
        for wrong in ("", "tool_nothing", "tool_\0", "ses_" + waiting.id):
            with pytest.raises(NotFound, match="no pending call"):
                await tools.submit_result(wrong, "v2")
            with pytest.raises(NotFound, match="no pending call"):
                await tools.get(wrong)
        for bad in (None, 7, b"v2", "half \ud800"):
            with pytest.raises(InvalidInput):
                await tools.submit_result(waiting.id, bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            await tools.submit_result(waiting.id, "v2", metadata=["no"])  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit"):
            await tools.waiting_calls(limit=0)
        assert await tools.get(waiting.id) == waiting
        await at.runtime.delete_session(at.session_id)
        for gone in (tools.submit_result(waiting.id, "v2"), tools.get(waiting.id), tools.cancel(waiting.id)):
            with pytest.raises(NotFound, match="no pending call"):
                await gone


@pytest.mark.spec("P-14")
async def test_a_cancelled_call_has_failed_and_the_session_goes_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        first = await at.runtime.async_tools.cancel(waiting.id)
        again = await at.runtime.async_tools.cancel(waiting.id)
        await at.listener.until(SessionIdle)
        with pytest.raises(AlreadySettled, match=CANCELLED):
            await at.runtime.async_tools.submit_result(waiting.id, "too late")

    assert first == again
    assert first.status == "failed"
    assert first.error == CANCELLED
    assert results(at) == [CANCELLED]
    assert len(at.model.requests) == 2


@pytest.mark.spec("P-05")
async def test_a_result_that_the_tool_does_not_take_leaves_the_call_waiting(tmp_path: Path) -> None:
    def has_address(result: ToolResult) -> bool:
        return "url" in result.metadata

    async def speaks(result: ToolResult) -> str | None:
        return None if result.output.startswith("ok") else "it begins with ok"

    def raises(result: ToolResult) -> None:
        raise ToolError("no such job")

    def broken(result: ToolResult) -> None:
        raise KeyError("oops")

    def start() -> None:
        """Start."""

    checks = {"a": has_address, "b": speaks, "c": raises, "d": broken}
    tools = [async_tool(name=name, validate_result=check)(start) for name, check in checks.items()]
    script = {"ship": [[call(name) for name in checks], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=tools) as at:
        await at.prompt("ship")
        waiting = {each.tool: each.id for each in await at.runtime.async_tools.waiting_calls()}
        submit = at.runtime.async_tools.submit_result
        refusals = {"a": "said no", "b": "it begins with ok", "c": "no such job", "d": "KeyError"}
        for name, why in refusals.items():
            with pytest.raises(ResultRefused, match=why):
                await submit(waiting[name], "done")
        assert len(await at.runtime.async_tools.waiting_calls()) == 4
        await submit(waiting["a"], "done", metadata={"url": "https://example.test"})
        await submit(waiting["b"], "ok")
        for name in "cd":  # a failure needs no check
            await at.runtime.async_tools.submit_error(waiting[name], "gave up")
        await at.listener.until(SessionIdle)

    assert results(at) == ["done", "ok", "gave up", "gave up"]


@pytest.mark.spec("P-05")
async def test_a_runtime_without_the_tool_cannot_validate_its_results(tmp_path: Path) -> None:
    @async_tool(name="deploy", validate_result=lambda result: True)
    def checked(target: str) -> None:
        """Deploy."""

    async with open_stage(tmp_path, SCRIPT, tools=[checked]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        async with open_stage(tmp_path, ScriptedModel({}), serve=False) as other:
            with pytest.raises(Unavailable, match="does not have"):
                await other.runtime.async_tools.submit_result(waiting.id, "v2")
            await other.runtime.async_tools.submit_error(waiting.id, "gave up")
        await at.listener.until(SessionIdle, lambda event: event.session_id == at.session_id)

    assert results(at) == ["gave up"]


@pytest.mark.spec("P-05")
async def test_a_check_that_mutates_a_result_does_not_change_the_stored_one(tmp_path: Path) -> None:
    def check(result: ToolResult) -> bool:
        return bool(result.metadata.pop("size") == 1)

    @async_tool(name="deploy", validate_result=check)
    def start(target: str) -> None:
        """Deploy."""

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        first = await at.runtime.async_tools.submit_result(waiting.id, "v2", metadata={"size": 1})
        again = await at.runtime.async_tools.submit_result(waiting.id, "v2", metadata={"size": 1})
        await at.listener.until(SessionIdle)

    assert first == again
    assert first.result == ToolResult(title="", output="v2", metadata={"size": 1})


@pytest.mark.spec("P-07")
async def test_a_deadline_comes_from_the_call_else_the_tool_else_the_configuration(tmp_path: Path) -> None:
    def plain() -> Pending:
        """Start."""
        return Pending(estimated_seconds=60)

    def own() -> Pending:
        """Start."""
        return Pending(seconds=7, estimated_seconds=60)

    def long() -> Pending:
        """Start."""
        return Pending(estimated_seconds=200_000)

    def ever() -> Pending:
        """Start."""
        return Pending(seconds=None)

    tools = [
        async_tool(name="tool", seconds=3600)(plain),
        async_tool(name="call", seconds=3600)(own),
        async_tool(name="config")(plain),
        async_tool(name="estimate")(long),
        async_tool(name="ever")(ever),
    ]
    script = {"ship": [[call(tool.name) for tool in tools]]}
    limits = AsyncToolsConfig(seconds=1800)
    async with open_stage(tmp_path, script, tools=tools, async_tools=limits) as at:
        await at.prompt("ship")
        waiting = {each.tool: each for each in await at.runtime.async_tools.waiting_calls()}
        opened = await at.runtime.open_calls(at.session_id)
        since = {each.tool: each.open.since for each in opened if each.open}

    told = {tool: each.timeout and each.timeout - since[tool] for tool, each in waiting.items()}
    assert told == {"tool": HOUR, "call": 7_000, "config": HOUR // 2, "estimate": 400_000_000, "ever": None}


@pytest.mark.spec("P-07")
async def test_a_deadline_too_far_away_for_a_clock_is_capped(tmp_path: Path) -> None:
    @async_tool(name="deploy", seconds=1e306, estimated_seconds=1e306)
    def start(target: str) -> None:
        """Deploy."""

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()

    assert waiting.status == "waiting"
    assert waiting.timeout == 2**53


@pytest.mark.spec("P-07", "P-08")
async def test_a_call_overdue_at_startup_expires_and_resumes_its_session_once(tmp_path: Path) -> None:
    clock, model = FakeClock(), ScriptedModel(SCRIPT)
    async with open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
        (waiting,) = await runtime.async_tools.waiting_calls()
    clock.advance(25 * HOUR)
    async with (
        open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        with inside(runtime).bus.subscribe() as subscription:
            if not isinstance(await runtime.status(session.id), Idle):
                await EventListener(subscription).until(SessionIdle)
        expired = await runtime.async_tools.get(waiting.id)
        with pytest.raises(AlreadySettled, match="timed out"):
            await runtime.async_tools.submit_result(waiting.id, "v2")

    assert expired.status == "expired"
    assert expired.error == TIMED_OUT
    assert [told.output for told in model.requests[-1].messages if isinstance(told, ToolTurn)] == [TIMED_OUT]
    assert len(model.requests) == 2


@pytest.mark.spec("P-07", "P-08")
async def test_a_wait_for_a_session_includes_overdue_calls_if_the_runtime_serves(
    tmp_path: Path,
) -> None:
    clock, model = FakeClock(), ScriptedModel(SCRIPT)
    async with open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
        assert not await runtime.at_work(session.id)
    clock.advance(25 * HOUR)
    reader = replace(world(model, deploy), serve=False)
    async with open_sqlite_runtime(tmp_path, reader, clock=clock) as runtime, asyncio.timeout(PATIENCE):
        assert isinstance(await runtime.wait(session.id), WaitingAsync)
        assert await runtime.at_work(session.id)
    async with (
        open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        assert isinstance(await runtime.wait(session.id), Idle)
        assert not await runtime.at_work(session.id)
    assert len(model.requests) == 2


@pytest.mark.spec("P-07")
async def test_people_are_warned_once_before_a_call_expires(tmp_path: Path) -> None:
    clock, model = FakeClock(), ScriptedModel(SCRIPT)
    async with (
        open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "ship")
            (waiting,) = await runtime.async_tools.waiting_calls()
            clock.advance(23 * HOUR - 1)
            await inside(runtime).dispatcher.sweep()
            assert not listener.of(AsyncToolExpiring)
            clock.advance(1)
            await inside(runtime).dispatcher.sweep()
            told = await listener.until(AsyncToolExpiring)
            clock.advance(HOUR // 2)
            await inside(runtime).dispatcher.sweep()
            assert await runtime.async_tools.get(waiting.id) == waiting
            clock.advance(HOUR)
            await inside(runtime).dispatcher.sweep()
            await listener.until(SessionIdle)

    assert told.session_id == session.id
    assert told.pending_id == waiting.id
    assert told.tool == "deploy"
    assert told.timeout == waiting.timeout
    assert len(listener.of(AsyncToolExpiring)) == 1
    assert len(model.requests) == 2


@pytest.mark.spec("P-08")
async def test_a_start_that_was_cut_off_goes_back_to_waiting_for_its_result(tmp_path: Path) -> None:
    started, hang = asyncio.Event(), asyncio.Event()
    ids: list[str] = []

    @async_tool(name="deploy")
    async def slow(target: str, context: ToolContext) -> None:
        """Deploy."""
        ids.append(context.pending_id)
        started.set()
        await hang.wait()

    model = ScriptedModel(SCRIPT)
    async with open_stage(tmp_path, model, tools=[slow]) as at:
        await at.runtime.send(at.session_id, "ship")
        await started.wait()
        processing = await at.runtime.async_tools.get(ids[0])
        session_id = at.session_id
    async with open_stage(tmp_path, model, tools=[slow]) as later:
        await later.listener.until_status(WaitingAsync)
        (waiting,) = await later.runtime.async_tools.waiting_calls(session_id)
        (open_call,) = await later.runtime.open_calls(session_id)
        await later.runtime.async_tools.submit_result(ids[0], "v2")
        await later.listener.until(SessionIdle)

    assert processing.status == "processing"
    assert waiting.id == ids[0]
    assert waiting.status == "waiting"
    assert waiting.timeout == processing.timeout
    assert isinstance(open_call.state, Open)
    assert open_call.state.note == START_UNSURE
    assert len(ids) == 1
    assert len(model.requests) == 2
    assert [told.output for told in model.requests[-1].messages if isinstance(told, ToolTurn)] == ["v2"]


@pytest.mark.spec("P-08")
async def test_a_start_that_may_run_again_does_under_the_same_id_and_secret(tmp_path: Path) -> None:
    started, hang = asyncio.Event(), asyncio.Event()
    seen: list[tuple[str, str]] = []

    @async_tool(name="deploy", effect="idempotent")
    async def slow(target: str, context: ToolContext) -> None:
        """Deploy."""
        seen.append((context.pending_id, context.secret))
        started.set()
        if len(seen) == 1:
            await hang.wait()

    model = ScriptedModel(SCRIPT)
    async with open_stage(tmp_path, model, tools=[slow]) as at:
        await at.runtime.send(at.session_id, "ship")
        await started.wait()
    async with open_stage(tmp_path, model, tools=[slow]) as later:
        await later.listener.until_status(WaitingAsync)

    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][1].startswith("whsec_")


@pytest.mark.spec("P-08")
async def test_a_start_that_was_cut_off_waits_for_its_result_without_the_tool(
    tmp_path: Path,
) -> None:
    started, hang = asyncio.Event(), asyncio.Event()
    ids: list[str] = []

    @async_tool(name="deploy", effect="idempotent")
    async def slow(target: str, context: ToolContext) -> None:
        """Deploy."""
        ids.append(context.pending_id)
        started.set()
        await hang.wait()

    model = ScriptedModel(SCRIPT)
    async with open_stage(tmp_path, model, tools=[slow]) as at:
        await at.runtime.send(at.session_id, "ship")
        await started.wait()
    async with open_stage(tmp_path, model) as elsewhere:
        await elsewhere.listener.until_status(WaitingAsync)
        await elsewhere.runtime.async_tools.submit_result(ids[0], "v2")
        await elsewhere.listener.until(SessionIdle)

    assert [told.output for told in model.requests[-1].messages if isinstance(told, ToolTurn)] == ["v2"]


async def test_a_tool_context_has_the_callback_url_and_hides_the_secret_in_its_repr(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    @async_tool(name="deploy")
    async def start(target: str, context: ToolContext) -> Pending:
        """Deploy."""
        seen.append(context)
        return Pending(secret=Secret("whsec_aXNzdWVk"))

    config = AsyncToolsConfig(url="https://agents.example.test", secrets=(Secret("shared"),))
    async with open_stage(tmp_path, SCRIPT, tools=[start], async_tools=config) as at:
        await at.prompt("ship")
        (context,) = seen
        secrets = await at.runtime.async_tools.secrets(context.pending_id)
        await at.runtime.async_tools.rotate_key()
        rotated = await at.runtime.async_tools.secrets(context.pending_id)

    assert context.callback_url == "https://agents.example.test/async-tool/webhook"
    assert [secret.reveal() for secret in secrets] == [context.secret, "whsec_aXNzdWVk", "shared"]
    assert context.secret not in repr(context)
    assert len(rotated) == 4
    assert set(secrets) < set(rotated)


@pytest.mark.spec("P-01")
async def test_an_async_tool_may_return_its_reference_as_plain_json(tmp_path: Path) -> None:
    @async_tool(name="deploy")
    def start(target: str, context: ToolContext) -> dict[str, object]:
        """Deploy."""
        return {
            "async": True,
            "pendingID": context.pending_id,
            "externalRef": "job-9",
            "estimatedDuration": 300_000,
            "output": "Job job-9 started",
        }

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        (state,) = await at.states()

    assert waiting.external_ref == "job-9"
    assert waiting.estimated_duration == 300_000
    assert isinstance(state, ToolWaiting)
    assert state.output == "Job job-9 started"


async def test_title_and_metadata_of_a_pending_call_are_shown_while_it_waits(tmp_path: Path) -> None:
    @async_tool(name="deploy")
    def start(target: str, context: ToolContext) -> str:
        """Deploy."""
        context.metadata({"job": 7}, title=f"Deploying to {target}")
        return "started"

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (state,) = await at.states()

    assert isinstance(state, ToolWaiting)
    assert state.title == "Deploying to staging"
    assert state.metadata == {"job": 7}
    assert state.output == "started"


async def test_a_secret_as_plain_text_is_refused_and_not_repeated(tmp_path: Path) -> None:
    @async_tool(name="deploy")
    def start(target: str) -> Pending:
        """Deploy."""
        return Pending(secret="whsec_plain")  # type: ignore[arg-type]

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (state,) = await at.states()

    assert isinstance(state, ErrorState)
    assert "Secret(…)" in state.error
    assert "plain" not in state.error


async def test_a_long_result_is_stored_whole_and_the_model_reads_it_shortened(tmp_path: Path) -> None:
    script = {
        "ship": [[call("deploy", target="a"), call("deploy", target="b")], [say("Shipped.")]],
        "and?": [[say("Wait.")], [say("Both are in.")]],
    }
    long = "first " + "x" * 3_000_000 + " last"
    async with open_stage(tmp_path, script, tools=[deploy]) as at:
        await at.prompt("ship")
        first, second = await at.runtime.async_tools.waiting_calls()
        await at.runtime.async_tools.submit_result(first.id, long)
        await at.prompt("and?")
        await at.runtime.async_tools.submit_error(second.id, long)
        await at.listener.until(SessionIdle)
        states = await at.states()

    assert isinstance(states[0], ToolCompleted)
    assert isinstance(states[1], ErrorState)
    assert states[0].output == states[1].error == long
    told = str(at.request_messages())
    assert told.count("first ") == 2
    assert told.count(" last") == 2
    assert told.count("characters left out") == 2
    assert len(told) < 500_000


async def test_an_unknown_key_returned_by_an_async_tool_fails_its_call(tmp_path: Path) -> None:
    @async_tool(name="deploy")
    def start(target: str) -> dict[str, object]:
        """Deploy."""
        return {"externalReference": "job-9"}

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        await at.prompt("ship")
        (state,) = await at.states()

    assert isinstance(state, ErrorState)
    assert "externalRef" in state.error


@pytest.mark.spec("P-15")
async def test_resume_wakes_a_session_whose_result_is_in_and_changes_nothing_else(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        with pytest.raises(Conflict, match="still waits"):
            await at.runtime.async_tools.resume(waiting.id)
        await at.runtime.async_tools.submit_result(waiting.id, "v2")
        await at.listener.until(SessionIdle)
        before = await at.messages()
        await at.runtime.async_tools.resume(waiting.id)
        await at.listener.until(SessionIdle)
        assert await at.messages() == before

    assert len(at.model.requests) == 2


@pytest.mark.spec("P-15")
async def test_settled_calls_are_forgotten_after_a_month_and_the_conversation_is_not(tmp_path: Path) -> None:
    script = {
        "ship": [[call("deploy", target="a"), call("deploy", target="b")], [say("Shipped.")]],
        "and?": [[say("Wait.")], [say("Both are in.")]],
        "so?": [[say("So.")]],
    }
    clock, model = FakeClock(), ScriptedModel(script)
    async with (
        open_sqlite_runtime(tmp_path, world(model, deploy), clock=clock) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            session = await runtime.create_session(directory=tmp_path)
            await runtime.prompt(session.id, "ship")
            first, second = await runtime.async_tools.waiting_calls()
            await runtime.async_tools.submit_result(first.id, "one")
            await runtime.prompt(session.id, "and?")  # from here on the second is shown as pending
            await runtime.async_tools.submit_result(second.id, "two")
            await listener.until(SessionIdle)
            before = await runtime.messages(session.id)
            clock.advance(29 * 24 * HOUR)
            await inside(runtime).dispatcher.sweep()
            assert (await runtime.async_tools.get(first.id)).status == "completed"
            clock.advance(2 * 24 * HOUR)
            await inside(runtime).dispatcher.sweep()
            for each in (first, second):
                with pytest.raises(NotFound, match="pending call"):
                    await runtime.async_tools.get(each.id)
            assert await runtime.async_tools.list("completed") == ()
            assert await runtime.messages(session.id) == before
            await runtime.prompt(session.id, "so?")

    sent = [request.messages for request in model.requests]
    for earlier, after in pairwise(sent):
        assert list(after[: len(earlier)]) == list(earlier)


@pytest.mark.spec("P-01")
async def test_a_wait_is_listed_until_it_is_over_and_can_be_cut_short(tmp_path: Path) -> None:
    @async_tool(name="deploy")
    def nap(target: str) -> Pending:
        """Wait."""
        return Pending(kind="wait", seconds=3600)

    async with open_stage(tmp_path, SCRIPT, tools=[nap]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        await at.runtime.async_tools.submit_result(waiting.id, "enough")
        await at.listener.until(SessionIdle)

    assert results(at) == ["enough"]


@pytest.mark.spec("P-05")
async def test_an_abort_settles_the_call_and_a_late_result_is_a_conflict(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("ship")
        (waiting,) = await at.runtime.async_tools.waiting_calls()
        await at.abort()
        await at.listener.until(SessionIdle)
        with pytest.raises(AlreadySettled, match="aborted"):
            await at.runtime.async_tools.submit_result(waiting.id, "v2")
        settled = await at.runtime.async_tools.get(waiting.id)

    assert settled.status == "failed"
    assert len(at.model.requests) == 1


async def test_a_result_submitted_before_the_tool_returns_pending_counts_once(tmp_path: Path) -> None:
    runtimes: list[Runtime] = []

    @async_tool(name="deploy")
    async def start(target: str, context: ToolContext) -> Pending:
        """Deploy."""
        await runtimes[0].async_tools.submit_result(context.pending_id, "already there")
        return Pending(external_ref="job-1")

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        runtimes.append(at.runtime)
        answer = await at.prompt("ship")
        (settled,) = await at.runtime.async_tools.list("completed")

    assert answer.text == "Shipped."
    assert results(at) == ["already there"]
    assert settled.result == ToolResult(title="", output="already there", metadata={})
    assert Completed("already there") == Completed(settled.result.output)


@pytest.mark.spec("P-12")
async def test_a_tool_that_returns_after_its_result_still_creates_its_delivery(tmp_path: Path) -> None:
    runtimes: list[Runtime] = []

    @async_tool(name="deploy")
    async def start(target: str, context: ToolContext) -> Pending:
        """Deploy."""
        with inside(runtimes[0]).bus.subscribe() as subscription:
            await runtimes[0].async_tools.submit_result(context.pending_id, "already there")
            await EventListener(subscription).until_text("Shipped.")  # the session has gone on
        return Pending(webhook_url="https://hooks.example.test/x")

    async with open_stage(tmp_path, SCRIPT, tools=[start]) as at:
        runtimes.append(at.runtime)
        answer = await at.prompt("ship")
        (owed,) = await at.runtime.deliveries.list()

    assert answer.text == "Shipped."
    assert owed.url == "https://hooks.example.test/x"
