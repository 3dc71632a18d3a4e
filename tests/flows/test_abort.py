"""Abort: whatever goes on ends promptly, the turn says that it was aborted, and what was not read is kept."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncagents.domain.call.call import ABORTED
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.part import ToolFailed
from asyncagents.domain.conversation.status import Busy, Idle, WaitingAsync
from asyncagents.domain.event import (
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    SessionError,
    SessionIdle,
    SessionStatus,
)
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import AlreadySettled, Conflict
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
    StreamStart,
    TextBlock,
    TextDelta,
    TextStart,
    UserTurn,
)
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from asyncagents.testing.inside import inside
from tests.support.runtime import Stage, answer_of, open_runtime, open_stage, roles
from tests.support.tool import CAREFUL, Gate, TextArguments, build_pending_tool, run_echo
from tests.support.wait import PATIENCE

HANGS = {"go": [[say("I beg"), pause(3600)]], "next": [[say("Here.")]]}
GATED = {"go": [[call("gate")]], "next": [[say("Here.")]]}


async def until_shown(at: Stage, text: str) -> None:
    await at.listener.until(PartUpdated, lambda event: getattr(event.part, "text", "") == text)


@pytest.mark.spec("C-10")
async def test_an_abort_ends_the_stream_and_leaves_an_aborted_message(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        assert await at.abort()
        answer = await prompt
        await at.listener.until(SessionIdle)

    assert answer.text == "I beg"
    assert answer_of(answer).error == aborted_error()
    assert answer_of(answer).finish is None
    assert [event.error for event in at.listener.of(SessionError)] == [aborted_error()]
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), Idle()]


@pytest.mark.spec("C-10")
async def test_an_abort_ends_the_tools(tmp_path: Path) -> None:
    one, two = Gate("gate"), Gate("other")
    script = {"go": [[call("gate"), call("other")]]}
    async with open_stage(tmp_path, script, tools=[one.tool, two.tool]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await one.until_started()
        await two.until_started()
        assert await at.abort()
        assert one.ended.is_set()
        assert two.ended.is_set()
        answer = await prompt
        states = await at.states()

    assert answer_of(answer).error == aborted_error()
    assert [state.error for state in states if isinstance(state, ToolFailed)] == [ABORTED] * 2
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-10")
async def test_an_abort_settles_pending_calls_and_a_late_result_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, GATED, tools=[build_pending_tool("gate")]) as at:
        await at.prompt("go")
        waiting = await at.open_call()
        await at.listener.until_status(WaitingAsync)
        assert await at.abort()
        with pytest.raises(AlreadySettled):
            await at.runtime.complete(waiting.id, "too late")
        await at.listener.until(SessionIdle)
        (state,) = await at.states()
        question, turn = await at.messages()

    assert isinstance(state, ToolFailed)
    assert state.error == ABORTED
    assert roles([question, turn]) == ["user", "assistant"]
    assert answer_of(turn).error == aborted_error()
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-10")
async def test_an_abort_rejects_open_asks(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = (await at.listener.until(PermissionAsked)).request.id
        assert await at.abort()
        answer = await prompt
        with pytest.raises(Conflict):
            await at.runtime.answer(ask_id, "once")
        await at.listener.until(SessionIdle)

    assert answer_of(answer).error == aborted_error()
    assert [event.reply for event in at.listener.of(PermissionReplied)] == ["reject"]


@pytest.mark.spec("C-10")
async def test_an_abort_does_not_wait_for_a_plan(tmp_path: Path) -> None:
    planning = asyncio.Event()

    async def plan(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
        planning.set()
        await asyncio.Event().wait()
        return ()

    script = {"go": [[call("slow", text="a")]]}
    async with open_stage(tmp_path, script, tools=[Tool("slow", TextArguments, run_echo, plan=plan)]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await planning.wait()
        assert await at.abort()
        answer = await prompt

    assert answer_of(answer).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_an_abort_before_the_first_step_answers_the_prompt(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS, serve=False) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await until_shown(at, "go")
        assert await at.abort()
        async with open_runtime(tmp_path, model=at.model):
            answer = await prompt
            await at.listener.until(SessionIdle)
        messages = await at.messages()

    assert answer_of(answer).error == aborted_error()
    assert [entry.text for entry in messages] == ["go", ""]
    assert at.model.requests == []


@pytest.mark.spec("C-10")
async def test_an_abort_may_be_repeated(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        assert await asyncio.gather(*(at.abort() for _ in range(5))) == [True] * 5
        assert await at.abort()
        answer = await prompt
        again = await at.prompt("next")

    assert answer_of(answer).error == aborted_error()
    assert again.text == "Here."


@pytest.mark.spec("C-10")
@pytest.mark.parametrize("moment", range(12))
async def test_aborts_at_any_moment_of_a_turn_are_acknowledged(tmp_path: Path, moment: int) -> None:
    """One abort as the turn begins, more after so many events of it."""
    script = {"go": [[say("a", "b"), call("gate")]], "next": [[say("Here.")]]}
    async with open_stage(tmp_path, script, tools=[build_pending_tool("gate", kind="wait")]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        for _ in range(moment):
            await at.listener.until(object)  # type: ignore[type-var]
        async with asyncio.timeout(PATIENCE):
            assert all(await asyncio.gather(at.abort(), at.abort()))
            answer = await prompt
        status = await at.status()
        again = await at.prompt("next")

    assert answer_of(answer).error == aborted_error()
    assert status == Idle()
    assert again.text == "Here."


@pytest.mark.spec("C-10")
async def test_an_abort_of_an_idle_session_does_not_affect_the_next_prompt(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        assert await at.abort()
        answer = await at.prompt("next")
        assert await at.abort()
        messages = await at.messages()

    assert answer.text == "Here."
    assert answer_of(answer).error is None
    assert messages[-1] == answer


@pytest.mark.spec("C-10", "S-12")
async def test_queued_prompts_stay_visible_and_are_answered_with_the_next_input(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, GATED, tools=[gate.tool]) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        queued = asyncio.ensure_future(at.prompt("queued"))
        await until_shown(at, "queued")
        assert await at.abort()
        told_first, told_queued = await first, await queued
        shown = [entry.text for entry in await at.messages()]
        idle, requests = await at.status(), len(at.model.requests)
        answer = await at.prompt("next")

    assert told_first == told_queued
    assert answer_of(told_queued).error == aborted_error()
    assert shown == ["go", "", "queued"]
    assert idle == Idle()
    assert requests == 1
    assert answer.text == "Here."
    assert at.request_messages()[-2:] == [UserTurn("queued"), UserTurn("next")]


@pytest.mark.spec("C-10")
async def test_input_after_an_abort_is_not_covered_by_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        stopped, answer = await asyncio.gather(at.abort(), at.prompt("next"))
        gone = await first

    assert stopped
    assert answer.text == "Here."
    assert answer_of(gone).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_input_sent_with_an_abort_is_answered_at_any_moment_of_a_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        for ticks in range(15):
            first = asyncio.ensure_future(at.prompt("go"))
            for _ in range(ticks):
                await asyncio.sleep(0)
            stopped, answer = await asyncio.gather(at.abort(), at.prompt("next"))
            assert stopped
            assert answer.text == "Here."
            assert answer_of(answer).error is None
            assert answer_of(await first).error == aborted_error()


async def test_the_model_reads_the_text_that_was_streamed_before_an_abort(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
        await at.abort()
        await at.prompt("next")

    assert at.request_messages() == [UserTurn("go"), ModelTurn((TextBlock("I beg"),)), UserTurn("next")]


class Stubborn(ScriptedModel):
    """A provider's library that turns a cancel into something else."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__({})
        self._failure = failure

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        yield StreamStart()
        yield TextStart("t")
        yield TextDelta("t", "I beg")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._failure is not None:
                raise self._failure from None


@pytest.mark.spec("C-10")
@pytest.mark.parametrize("failure", [None, ConnectionError("closed"), TimeoutError("closed")])
async def test_a_turn_ends_as_aborted_even_if_the_model_hides_the_cancel(
    tmp_path: Path, failure: Exception | None
) -> None:
    async with open_stage(tmp_path, Stubborn(failure)) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        assert await at.abort()
        answer = await prompt

    assert answer_of(answer).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_an_abort_is_acknowledged_late_when_a_tool_does_not_stop(tmp_path: Path) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    async def cling(args: TextArguments, context: ToolContext) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    script = {"go": [[call("cling", text="a")]]}
    async with open_stage(tmp_path, script, tools=[Tool("cling", TextArguments, cling)]) as at:  # type: ignore[arg-type]
        prompt = asyncio.ensure_future(at.prompt("go"))
        await started.wait()
        inside(at.runtime).bus._size = 2  # so that who waits for the end is cut off before it comes
        await at.runtime.send(at.session_id, "more", wakes=False)
        stopped = asyncio.ensure_future(at.runtime.abort(at.session_id, seconds=0.1))
        await at.runtime.send(at.session_id, "and more", wakes=False)
        try:
            assert not await stopped
        finally:
            let_go.set()
        assert await at.abort()
        answer = await prompt

    assert answer_of(answer).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_an_abort_interrupts_a_stream_of_thousands_of_events(tmp_path: Path) -> None:
    script = {"go": [[say("I beg"), pause(0.005), say(*["x"] * 5000), pause(3600)]]}
    async with open_stage(tmp_path, script) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I beg")
        assert await at.abort()
        answer = await prompt

    assert answer_of(answer).error == aborted_error()


@pytest.mark.spec("C-10")
async def test_an_aborted_prompt_publishes_prompt_answered(tmp_path: Path) -> None:
    async with open_stage(tmp_path, HANGS) as at:
        sent = await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("I beg")
        await at.abort()
        event = await at.listener.until(PromptAnswered)
        turn = (await at.messages())[-1]

    assert event.message_id == sent
    assert event.answer_id == turn.info.id
