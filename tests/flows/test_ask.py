"""Permissions and questions: the session is busy while it asks, and goes on when somebody has answered."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import REJECTED, REJECTED_TOO, Reject
from asyncagents.domain.conversation.failure import UnknownError
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolRunning
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import (
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.session_state import CLAIM_LIMIT
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import call, say
from tests.support.runtime import Stage, answer_of, open_stage
from tests.support.tool import CAREFUL, ECHO, Gate, TextArguments, build_pending_tool, run_echo

COLOUR = Question(
    question="Which colour?", header="Colour", options=(Option(label="red", description="warm"),)
)
SIZE = Question(question="Which size?", header="Size", options=())
ASKS = build_pending_tool("inquire", kind="question", questions=(COLOUR, SIZE))
SCRIPT = {"go": [[call("careful", text="a")], [say("Done.")]]}


async def asked(at: Stage) -> str:
    event = await at.listener.until(PermissionAsked)
    assert event.request.patterns == ("a",)
    return event.request.id


def results(at: Stage) -> list[str]:
    return [told.output for told in at.request_messages() if isinstance(told, ToolTurn)]


@pytest.mark.spec("C-03", "C-06")
async def test_a_call_that_asks_keeps_the_session_busy_and_runs_when_approved(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        (state,) = await at.states()
        status, requests = await at.status(), len(at.model.requests)
        answered = await at.runtime.answer(ask_id, "once")
        answer = await prompt
        await at.listener.until(SessionIdle)

    assert isinstance(state, ToolRunning)
    assert status == Busy()
    assert requests == 1
    assert answered.ask_id == ask_id
    assert answer.text == "Done."
    assert results(at) == ["a"]
    assert [event.reply for event in at.listener.of(PermissionReplied)] == ["once"]
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), Idle()]


@pytest.mark.spec("C-03")
async def test_an_approved_call_does_not_wait_for_a_slow_sibling(tmp_path: Path) -> None:
    slow = Gate("slow")
    script = {"go": [[call("slow"), call("careful", text="a")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[slow.tool, CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.runtime.answer(await asked(at), "once")
        await at.listener.until(
            PartUpdated,
            lambda event: isinstance(event.part, ToolPart) and isinstance(event.part.state, ToolCompleted),
        )
        assert not slow.ended.is_set()
        slow.go.set()
        await prompt

    assert results(at) == ["through", "a"]


async def test_a_call_whose_sibling_asks_does_not_wait_for_the_answer(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a"), call("echo", text="b")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL, ECHO]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        await at.listener.until(
            PartUpdated,
            lambda event: isinstance(event.part, ToolPart) and isinstance(event.part.state, ToolCompleted),
        )
        await at.runtime.answer(ask_id, "once")
        await prompt

    assert results(at) == ["a", "b"]


@pytest.mark.spec("C-03")
async def test_a_rejection_blocks_the_turn_and_settles_the_siblings(tmp_path: Path) -> None:
    slow = Gate("slow")
    script = {"go": [[call("careful", text="a"), call("careful", text="b"), call("slow")]]}
    async with open_stage(tmp_path, script, tools=[slow.tool, CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        await at.listener.until(PermissionAsked)
        await slow.until_started()
        await at.runtime.answer(ask_id, "reject")
        assert not slow.ended.is_set()
        slow.go.set()
        answer = await prompt
        await at.listener.until(SessionIdle)
        states = await at.states()

    rejected, too, finished = states
    assert isinstance(rejected, ToolFailed)
    assert isinstance(too, ToolFailed)
    assert isinstance(finished, ToolCompleted)
    assert rejected.error == REJECTED
    assert too.error == REJECTED_TOO
    assert finished.output == "through"
    assert len(at.model.requests) == 1
    assert len([part for part in answer.parts if isinstance(part, ToolPart)]) == 3
    assert [event.reply for event in at.listener.of(PermissionReplied)] == ["reject", "reject"]


@pytest.mark.spec("C-03")
async def test_a_prompt_after_a_blocked_turn_is_answered(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a")]], "then?": [[say("Otherwise.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.runtime.answer(await asked(at), "reject")
        await prompt
        answer = await at.prompt("then?")

    assert answer.text == "Otherwise."
    assert results(at) == [REJECTED]


async def test_input_during_an_ask_is_answered_after_a_rejection(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a")]], "then?": [[say("Otherwise.")]]}
    async with open_stage(tmp_path, script, tools=[CAREFUL]) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        second = asyncio.ensure_future(at.prompt("then?"))
        await at.listener.until(PartUpdated, lambda event: getattr(event.part, "text", "") == "then?")
        await at.runtime.answer(ask_id, "reject")
        blocked, answer = await first, await second

    assert blocked.text == ""
    assert answer.text == "Otherwise."


@pytest.mark.spec("C-03")
async def test_a_rejection_with_a_message_continues_the_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.runtime.answer(await asked(at), Reject("use b"))
        answer = await prompt

    assert answer.text == "Done."
    assert results(at) == [f"{REJECTED} They said: use b"]


@pytest.mark.spec("C-03")
async def test_a_question_is_answered(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[call("inquire")], [say("Done.")]]}, tools=[ASKS]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        event = await at.listener.until(QuestionAsked)
        status = await at.status()
        await at.runtime.answer(event.request.id, [["red"], ["S", "M"]])
        await prompt
        await at.listener.until(SessionIdle)

    assert event.request.questions == (COLOUR, SIZE)
    assert status == Busy()
    assert results(at) == ["Which colour?\nred\n\nWhich size?\nS, M"]
    assert [event.answers for event in at.listener.of(QuestionReplied)] == [(("red",), ("S", "M"))]


@pytest.mark.spec("C-03")
async def test_a_rejected_question_blocks_the_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[call("inquire")]]}, tools=[ASKS]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        event = await at.listener.until(QuestionAsked)
        await at.runtime.answer(event.request.id, "reject")
        await prompt
        await at.listener.until(SessionIdle)

    assert len(at.model.requests) == 1
    assert len(at.listener.of(QuestionRejected)) == 1


async def test_the_same_answer_again_is_fine_and_another_is_a_conflict(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        await at.runtime.answer(ask_id, "once")
        await prompt
        assert (await at.runtime.answer(ask_id, "once")).ask_id == ask_id
        with pytest.raises(Conflict):
            await at.runtime.answer(ask_id, "reject")

    assert results(at) == ["a"]


async def test_an_answer_of_the_wrong_form_changes_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[call("inquire")], [say("Done.")]]}, tools=[ASKS]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = (await at.listener.until(QuestionAsked)).request.id
        for wrong in ("yes", "once", ["red", "S"], [["red"]]):
            with pytest.raises(InvalidInput):
                await at.runtime.answer(ask_id, wrong)
        with pytest.raises(NotFound):
            await at.runtime.answer("per_1", "once")
        await at.runtime.answer(ask_id, [[], ["S"]])
        await prompt

    assert results(at) == ["Which colour?\n(no answer)\n\nWhich size?\nS"]


async def test_rules_decide_without_a_person(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="a"), call("careful", text="b")], [say("Done.")]]}
    rules = {"a": "allow", "b": "deny"}
    async with open_stage(
        tmp_path, script, tools=[CAREFUL], policy=lambda ask, context: rules[ask.patterns[0]]
    ) as at:
        await at.prompt("go")

    assert results(at) == ["a", "Not allowed here: echo b."]


async def test_rules_that_raise_end_in_an_error_not_in_a_loop(tmp_path: Path) -> None:
    asked: list[Ask] = []

    def broken(ask: Ask, context: ToolContext) -> Literal["allow"]:
        asked.append(ask)
        raise RuntimeError("a bug in a rule")

    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL], policy=broken) as at:
        answer = await at.prompt("go")
        await at.listener.until(SessionIdle)

    error = answer_of(answer).error
    assert isinstance(error, UnknownError)
    assert error.data.message.startswith("crash_loop")
    assert len(asked) == CLAIM_LIMIT + 1
    assert len(at.model.requests) == 1


async def test_a_call_asks_again_when_its_plan_asks_for_another_pattern(tmp_path: Path) -> None:
    places = ["/tmp/one", "/tmp/two", "/tmp/two"]

    async def plan(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
        return (Ask("write", (places.pop(0),)),)

    moving = Tool("moving", TextArguments, run_echo, plan=plan)
    script = {"go": [[call("moving", text="a")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[moving]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        first = (await at.listener.until(PermissionAsked)).request
        await at.runtime.answer(first.id, "once")
        second = (await at.listener.until(PermissionAsked)).request
        await at.runtime.answer(second.id, "once")
        await prompt

    assert first.patterns == ("/tmp/one",)
    assert second.patterns == ("/tmp/two",)
    assert (first.id != second.id) is True
    assert results(at) == ["a"]
    assert places == []


async def test_a_plan_that_fails_is_an_error_for_the_model(tmp_path: Path) -> None:
    async def plan(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
        raise FileNotFoundError("no such place")

    lost = Tool("lost", TextArguments, run_echo, plan=plan)
    async with open_stage(tmp_path, {"go": [[call("lost", text="a")], [say("Done.")]]}, tools=[lost]) as at:
        await at.prompt("go")

    assert results(at) == ["FileNotFoundError: no such place"]


async def test_a_result_for_a_call_that_asks_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[CAREFUL]) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        ask_id = await asked(at)
        with pytest.raises(Conflict, match=ask_id):
            await at.runtime.complete((await at.open_call()).id, "smuggled")
        await at.runtime.answer(ask_id, "once")
        await prompt

    assert results(at) == ["a"]
