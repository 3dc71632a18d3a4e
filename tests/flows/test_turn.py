"""A turn from prompt to rest: what is stored, what is heard, and what the next turn tells the model."""

from itertools import pairwise
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import (
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCompleted,
    ToolPart,
)
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import (
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PromptAnswered,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.id import PartId
from asyncagents.llm.model import ModelTurn, TextBlock, ThinkingBlock, ToolCallBlock, ToolTurn, UserTurn
from asyncagents.llm.scripted import call, end, pause, say, think
from tests.support.runtime import answer_of, open_stage, roles
from tests.support.tool import ECHO, Gate


@pytest.mark.spec("C-01", "C-02", "S-03")
async def test_a_prompt_is_answered_and_the_session_rests(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("Hi ", "there.")]]}) as at:
        answer = await at.prompt("hello")
        question, stored = await at.messages()
        status = await at.status()

    assert answer.text == "Hi there."
    assert stored == answer
    assert question.text == "hello"
    assert roles([question, stored]) == ["user", "assistant"]
    assert answer_of(answer).finish == "stop"
    assert answer_of(answer).error is None
    assert answer_of(answer).parent_id == question.info.id
    assert answer_of(answer).tokens.total == 2
    assert status == Idle()
    assert at.request_messages() == [UserTurn("hello")]


@pytest.mark.spec("C-02", "C-06")
async def test_events_come_in_the_order_in_which_things_happen(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("Hi.")]]}) as at:
        await at.prompt("hello")
        await at.listener.until(SessionIdle)

    assert [event.type for event in at.listener.received] == [
        "session.created",
        "message.updated",  # the prompt
        "message.part.updated",
        "session.updated",
        "session.status",
        "message.updated",  # the step begins
        "message.part.updated",
        "message.part.updated",  # its text
        "message.part.delta",
        "message.part.updated",
        "message.part.updated",  # the step ends
        "message.updated",
        "session.updated",
        "prompt.answered",
        "session.status",
        "session.idle",
    ]


@pytest.mark.spec("C-06")
async def test_each_status_change_is_published_once_and_busy_sessions_are_listed(
    tmp_path: Path,
) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, {"go": [[call("gate")], [say("Done.")]]}, tools=[gate.tool]) as at:
        before = await at.runtime.statuses()
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        during = await at.runtime.statuses()
        gate.go.set()
        await at.listener.until(SessionIdle)
        after = await at.runtime.statuses()

    assert before == {}
    assert during == {at.session_id: Busy()}
    assert after == {}
    assert [event.status for event in at.listener.of(SessionStatus)] == [Busy(), Idle()]
    assert len(at.listener.of(SessionIdle)) == 1


@pytest.mark.spec("C-02", "S-03")
async def test_streamed_deltas_rebuild_each_part_exactly(tmp_path: Path) -> None:
    words = ("Grüße, ", "", "wörld ", "🎉 and ", "more", ".")
    async with open_stage(tmp_path, {"hello": [[think("Hm."), say(*words), say("Bye.")]]}) as at:
        answer = await at.prompt("hello")
        await at.listener.until(SessionIdle)

    heard: dict[PartId, str] = {}
    for event in at.listener.received:
        if isinstance(event, PartDelta):
            assert event.offset == len(heard[event.part_id])
            heard[event.part_id] += event.delta
        elif isinstance(event, PartUpdated) and isinstance(event.part, TextPart | ReasoningPart):
            assert event.part.text in {"", heard.get(event.part.id, event.part.text)}
            heard[event.part.id] = event.part.text
    stored = {p.id: p.text for p in answer.parts if isinstance(p, TextPart | ReasoningPart)}
    assert list(stored.values()) == ["Hm.", "".join(words), "Bye."]
    assert stored.items() <= heard.items()


@pytest.mark.spec("S-04", "C-02")
async def test_reasoning_text_and_calls_are_parts_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    script = {"hello": [[think("Hm."), say("I look."), call("echo", text="a")], [say("Found.")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        await at.prompt("hello")
        _, first, second = await at.messages()

    kinds = [type(part) for part in first.parts]
    assert kinds == [StepStartPart, ReasoningPart, TextPart, ToolPart, StepFinishPart]
    assert [type(part) for part in second.parts] == [StepStartPart, TextPart, StepFinishPart]
    ids = [part.id or "" for part in (*first.parts, *second.parts)]
    assert all(a < b for a, b in pairwise(ids))
    assert answer_of(first).finish == "tool-calls"
    assert at.request_messages() == [
        UserTurn("hello"),
        ModelTurn(
            (ThinkingBlock("Hm."), TextBlock("I look."), ToolCallBlock("call_1_2", "echo", {"text": "a"}))
        ),
        ToolTurn("call_1_2", "echo", "a"),
    ]


@pytest.mark.spec("C-02", "S-04")
async def test_a_tool_part_is_seen_written_running_and_completed(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[call("echo", text="a")], [say("Done.")]]}, tools=[ECHO]) as at:
        await at.prompt("go")
        await at.listener.until(SessionIdle)

    seen = [event.part.state for event in at.listener.of(PartUpdated) if isinstance(event.part, ToolPart)]
    statuses = [type(state).__struct_config__.tag for state in seen]
    assert statuses == ["pending", "pending", "running", "completed"]
    assert [state.input for state in seen] == [{}, *[{"text": "a"}] * 3]
    assert isinstance(seen[-1], ToolCompleted)
    assert seen[-1].output == "a"
    assert (seen[-1].time.end is not None) is True


@pytest.mark.spec("C-02")
async def test_a_text_is_stored_when_it_ends_while_the_model_goes_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("First."), pause(3600)]]}) as at:
        await at.runtime.send(at.session_id, "hello")
        await at.listener.until(PartUpdated, lambda event: getattr(event.part, "text", "") == "First.")
        stored = (await at.messages())[-1].text
        await at.abort()

    assert stored == "First."


@pytest.mark.spec("S-05")
async def test_the_next_turn_sends_the_whole_history_in_order(tmp_path: Path) -> None:
    script = {"one": [[call("echo", text="a")], [say("A.")]], "two": [[say("B.")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        await at.prompt("one")
        await at.prompt("two")

    assert at.request_messages() == [
        UserTurn("one"),
        ModelTurn((ToolCallBlock("call_1_0", "echo", {"text": "a"}),)),
        ToolTurn("call_1_0", "echo", "a"),
        ModelTurn((TextBlock("A."),)),
        UserTurn("two"),
    ]


@pytest.mark.spec("S-05")
async def test_a_long_history_is_sent_in_full_and_in_order(tmp_path: Path) -> None:
    script = {f"say {n}": [[call("echo", text=f"{n}")], [say(f"It is {n}.")]] for n in range(20)}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        for text in script:
            await at.prompt(text)

    told = at.request_messages()
    assert [t.text for t in told if isinstance(t, UserTurn)] == list(script)
    assert [t.output for t in told if isinstance(t, ToolTurn)] == [f"{n}" for n in range(20)]


@pytest.mark.spec("C-01")
async def test_stop_with_a_call_runs_the_call(tmp_path: Path) -> None:
    script = {"go": [[call("echo", text="a"), end("stop")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        answer = await at.prompt("go")

    assert answer.text == "Done."
    assert len(at.model.requests) == 2


@pytest.mark.spec("C-01")
async def test_tool_calls_without_a_call_is_an_answer(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[say("Hm."), end("tool-calls")]]}) as at:
        answer = await at.prompt("go")

    assert answer_of(answer).finish == "stop"
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-06")
async def test_a_prompt_is_answered_before_the_session_is_idle(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"hello": [[say("Hi.")]]}) as at:
        answer = await at.prompt("hello")
        event = await at.listener.until(PromptAnswered)
        await at.listener.until(SessionIdle)

    assert event.answer_id == answer.info.id
    ends = [event.info for event in at.listener.of(MessageUpdated) if event.info.id == answer.info.id]
    assert ends[-1] == answer.info
