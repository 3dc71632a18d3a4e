"""The process ends, gracefully or not: who opens the directory next goes on from what was written down."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.call.call import IN_DOUBT, TIMED_OUT, Completed
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolFailed, ToolPart
from asyncagents.domain.conversation.status import Busy, WaitingAsync
from asyncagents.domain.event import PartUpdated, PermissionAsked
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.errors import Closed
from asyncagents.llm.model import ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from asyncagents.testing.clock import FakeClock
from asyncagents.testing.inside import inside
from tests.support.runtime import (
    EventListener,
    open_runtime,
    open_sqlite_runtime,
    open_stage,
    resume_session,
    wait_until_idle,
)
from tests.support.tool import CAREFUL, Gate, NoArguments, build_pending_tool
from tests.support.wait import PATIENCE

SCRIPT = {"go": [[call("gate")], [say("Done.")]]}


def results(model: ScriptedModel) -> list[str]:
    return [told.output for told in model.requests[-1].messages if isinstance(told, ToolTurn)]


@pytest.mark.spec("X-11")
async def test_a_step_that_was_cut_off_by_a_close_is_made_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("I beg"), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
    model = ScriptedModel({"go": [[say("Here.")]]})
    question, cut, answer = await resume_session(tmp_path, at.session_id, model)

    assert question.text == "go"
    assert answer.text == "Here."
    assert isinstance(cut.info, AssistantMessage)
    assert cut.info.error is not None
    assert [list(request.messages) for request in model.requests] == [[UserTurn("go")]]


@pytest.mark.spec("X-11", "C-10")
async def test_closing_leaves_nothing_half_open(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("I beg"), call("gate"), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until(PartUpdated, lambda event: isinstance(event.part, ToolPart))
    async with open_runtime(tmp_path, model=at.model, serve=False) as runtime:
        _, cut = await runtime.messages(at.session_id)
        status = await runtime.status(at.session_id)

    assert isinstance(cut.info, AssistantMessage)
    assert cut.text == "I beg"
    assert (cut.info.time.completed is not None) is True
    assert status == Busy()
    (part,) = (part for part in cut.parts if isinstance(part, ToolPart))
    assert isinstance(part.state, ToolFailed)


@pytest.mark.spec("X-11", "C-10")
async def test_an_abort_without_a_serving_runtime_is_applied_by_the_next_one(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, {"go": [[say("I beg"), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
    async with open_runtime(tmp_path, serve=False) as runtime:
        assert await runtime.abort(at.session_id)
    model = ScriptedModel({})
    *_, last = await resume_session(tmp_path, at.session_id, model)

    assert isinstance(last.info, AssistantMessage)
    assert last.info.error == aborted_error()
    assert model.requests == []


@pytest.mark.spec("X-11")
async def test_repeated_closes_are_not_taken_for_a_crash_loop(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("I beg"), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
    for _ in range(5):
        async with open_runtime(tmp_path, model=at.model) as runtime:
            with inside(runtime).bus.subscribe() as subscription:
                await EventListener(subscription).until_text("I beg")
    *_, answer = await resume_session(tmp_path, at.session_id, ScriptedModel({"go": [[say("Here.")]]}))

    assert answer.text == "Here."


@pytest.mark.spec("X-11")
@pytest.mark.parametrize(
    ("effect", "output", "runs"), [("once", IN_DOUBT, 0), ("idempotent", "again", 1), ("none", "again", 1)]
)
async def test_a_tool_that_was_cut_off_runs_again_only_if_its_effect_allows(
    tmp_path: Path, effect: str, output: str, runs: int
) -> None:
    first, second = Gate("gate", effect=effect), Gate("gate", result="again", effect=effect)
    second.go.set()
    async with open_stage(tmp_path, SCRIPT, tools=[first.tool]) as at:
        await at.runtime.send(at.session_id, "go")
        await first.until_started()
    assert first.ended.is_set()
    model = ScriptedModel(SCRIPT)
    *_, answer = await resume_session(tmp_path, at.session_id, model, second.tool)

    assert answer.text == "Done."
    assert results(model) == [output]
    assert second.runs == runs


@pytest.mark.spec("X-11")
@pytest.mark.parametrize(("found", "output"), [(Completed("it was done"), "it was done"), (None, IN_DOUBT)])
async def test_a_tool_reconciles_its_own_call_after_a_restart(
    tmp_path: Path, found: Completed | None, output: str
) -> None:
    keys: list[str] = []

    async def run(args: NoArguments, context: ToolContext) -> Completed:
        keys.append(context.call_id)
        started.set()
        await asyncio.Event().wait()
        return Completed("never")

    async def reconcile(args: NoArguments, context: ToolContext) -> Completed | None:
        keys.append(context.call_id)
        return found

    started = asyncio.Event()
    tool = Tool("gate", NoArguments, run, reconcile=reconcile)
    async with open_stage(tmp_path, SCRIPT, tools=[tool]) as at:
        await at.runtime.send(at.session_id, "go")
        await started.wait()
    model = ScriptedModel(SCRIPT)
    await resume_session(tmp_path, at.session_id, model, tool)

    assert results(model) == [output]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.spec("X-11")
async def test_a_pending_call_survives_a_restart_and_accepts_its_result(tmp_path: Path) -> None:
    deploy = build_pending_tool("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        await at.prompt("go")
        before = await at.status()
    model = ScriptedModel(SCRIPT)
    async with open_runtime(tmp_path, model=model, tools=[deploy]) as runtime:
        after = await runtime.status(at.session_id)
        assert isinstance(after, WaitingAsync)
        await runtime.complete(after.pending_id, "v2")
        await wait_until_idle(runtime, at.session_id)

    assert before == after
    assert results(model) == ["v2"]


@pytest.mark.spec("X-11")
async def test_an_ask_outlives_the_process_that_asked(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL]) as at:
        await at.runtime.send(at.session_id, "go")
        ask_id = (await at.listener.until(PermissionAsked)).request.id
    model = ScriptedModel(script)
    async with open_runtime(tmp_path, model=model, tools=[CAREFUL]) as runtime:
        busy = await runtime.status(at.session_id)
        await runtime.answer(ask_id, "once")
        await wait_until_idle(runtime, at.session_id)

    assert busy == Busy()
    assert results(model) == ["a"]


@pytest.mark.spec("X-11")
async def test_a_call_that_expired_while_no_process_ran_is_settled_at_the_start(tmp_path: Path) -> None:
    clock, model = FakeClock(), ScriptedModel(SCRIPT)
    setup = Setup(model=model, open_workplaces=fixed_tools([build_pending_tool("gate", seconds=60)]))
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "go")
        assert isinstance(await runtime.status(session.id), WaitingAsync)
    clock.advance(60_000)
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        await wait_until_idle(runtime, session.id)

    assert results(model) == [TIMED_OUT]


@pytest.mark.spec("X-11")
async def test_a_waiting_prompt_raises_closed_when_the_runtime_closes(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Closed):
            await prompt


async def test_an_error_in_the_body_of_a_runtime_propagates_through_the_close(tmp_path: Path) -> None:
    gate = Gate("gate")

    async def fail_while_it_runs() -> None:
        async with open_stage(tmp_path, SCRIPT, tools=[gate.tool]) as at:
            await at.runtime.send(at.session_id, "go")
            await gate.until_started()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_while_it_runs()
    assert gate.ended.is_set()


VICTIM = """
import asyncio, sys
from asyncagents import Completed, ScriptedModel, Tool, call, open_runtime, pause, say
from tests.support.tool import NoArguments

async def gate(args, context):
    print("gate", flush=True)
    await asyncio.sleep(3600)

async def main(data, text):
    script = {"stream": [[say("I beg"), pause(3600)]], "tool": [[call("gate")], [say("Done.")]]}
    tools = [Tool("gate", NoArguments, gate)]
    async with open_runtime(data, model=ScriptedModel(script), tools=tools) as runtime:
        session = await runtime.create_session(directory=data)
        async for event in runtime.stream(session.id, text):
            print(getattr(event, "delta", event.type), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def killed(data: Path, text: str, *, at: str) -> None:
    """A process that works in this directory until it prints a line, and then is gone."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", VICTIM, str(data), text),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while (line := (await process.stdout.readline()).decode().strip()) != at:
            assert line
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.spec("X-11")
async def test_a_killed_process_leaves_a_stream_that_is_made_again(tmp_path: Path) -> None:
    await killed(tmp_path, "stream", at="I beg")
    model = ScriptedModel({"stream": [[say("Here.")]]})
    async with open_runtime(tmp_path, model=model) as runtime:
        (session,) = await runtime.sessions(tmp_path)
        await wait_until_idle(runtime, session.id)
        question, cut, answer = await runtime.messages(session.id)

    assert question.text == "stream"
    assert answer.text == "Here."
    assert isinstance(cut.info, AssistantMessage)
    assert cut.info.error is not None
    assert [list(request.messages) for request in model.requests] == [[UserTurn("stream")]]


@pytest.mark.spec("X-11")
async def test_a_killed_process_leaves_a_tool_in_doubt(tmp_path: Path) -> None:
    await killed(tmp_path, "tool", at="gate")
    gate = Gate("gate")
    model = ScriptedModel({"tool": [[call("gate")], [say("Done.")]]})
    async with open_runtime(tmp_path, model=model, tools=[gate.tool]) as runtime:
        (session,) = await runtime.sessions(tmp_path)
        await wait_until_idle(runtime, session.id)
        answer = (await runtime.messages(session.id))[-1]

    assert answer.text == "Done."
    assert gate.runs == 0
    assert results(model) == [IN_DOUBT]
    assert isinstance(model.requests[-1].messages[1], ModelTurn)
