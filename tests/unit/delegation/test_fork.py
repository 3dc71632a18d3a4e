"""A fork begins with its parent's history: which messages, under which names, and with nothing open."""

from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.delegation.fork import OPENING, fork_history
from asyncagents.delegation.fork_copy import FILES_LEFT_OUT, UNDER_WAY
from asyncagents.domain.call.call import (
    Completed,
    Failed,
    Result,
    Settled,
)
from asyncagents.domain.call.late_result import parse_late_result, pending_text, result_text
from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.failure import aborted_error, api_error
from asyncagents.domain.conversation.message import JsonFormat, MessageTime, UserMessage
from asyncagents.domain.conversation.part import (
    AgentPart,
    FilePart,
    PartTime,
    PatchPart,
    ReasoningPart,
    RetryPart,
    RetryTime,
    SnapshotPart,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import CallId, Ids, MessageId
from asyncagents.engine.model_input import CLEARED, SUMMARISED
from asyncagents.errors import NotFound
from asyncagents.llm.model import ModelTurn, TextBlock, ToolTurn, UserTurn
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.domain.history import (
    CHILD,
    SPENT,
    TIME,
    History,
    inputs,
    outputs,
    request_messages,
    steps,
    summarise_history,
    texts,
)
from tests.support.domain.state import call


@pytest.mark.spec("T-11")
def test_only_messages_before_the_forking_message_are_copied() -> None:
    history = History()
    history.user("Find the bug.")
    history.step("I look.", history.completed_call("line 1", path="a.py"), finish="tool-calls")
    fork = history.fork()
    assert request_messages(fork.entries) == request_messages(history.entries)
    assert "never copied" not in str(fork)


@pytest.mark.spec("T-11")
def test_a_message_that_is_not_there_is_an_error() -> None:
    history = History()
    history.user("Hi")
    with pytest.raises(NotFound, match="msg_gone"):
        fork_history(
            (),
            history.entries,
            before=MessageId("msg_gone"),
            to=CHILD,
            ids=Ids(FakeClock(), SeededRng(1)),
        )


@pytest.mark.spec("T-11")
def test_a_fork_of_an_empty_history_is_empty() -> None:
    assert History().fork().entries == ()


@pytest.mark.spec("T-11")
def test_copied_messages_and_parts_have_new_ids_in_the_child_session() -> None:
    history = History()
    history.user("One", "Two")
    history.step("Yes", history.completed_call("x"), finish="tool-calls")
    history.user("Three")
    fork = history.fork()
    names = [entry.info.id for entry in fork.entries]
    parts = [part for entry in fork.entries for part in entry.parts]
    assert names == sorted(names)
    assert [part.id for part in parts] == sorted(part.id or "" for part in parts)
    assert not {*names} & {entry.info.id for entry in history.entries}
    assert {entry.info.session_id for entry in fork.entries} == {part.session_id for part in parts} == {CHILD}
    assert all(part.message_id == entry.info.id for entry in fork.entries for part in entry.parts)


@pytest.mark.spec("T-11")
def test_a_copied_step_keeps_its_agent_and_model_and_costs_nothing() -> None:
    history = History()
    history.user("Go")
    history.step(
        "Yes", agent="plan", mode="plan", model_id="owl", variant="high", finish="length", structured={"a": 1}
    )
    (made,) = steps(history.fork())
    assert made.agent == "plan"
    assert made.mode == "plan"
    assert made.model_id == "owl"
    assert made.variant == "high"
    assert made.finish == "length"
    assert made.cost == 0
    assert made.tokens == Tokens.zero()
    assert made.structured is None


@pytest.mark.spec("T-11")
def test_a_copied_prompt_loses_its_format_system_prompt_and_tools() -> None:
    history = History()
    history.user("Go", format=JsonFormat(schema={}), system="Be brief.", tools={"bash": False}, agent="plan")
    (entry,) = history.fork().entries
    assert isinstance(entry.info, UserMessage)
    assert entry.info.format is None
    assert entry.info.system is None
    assert entry.info.tools is None
    assert entry.info.agent == "plan"


@pytest.mark.spec("T-11")
def test_a_copied_step_answers_the_copy_of_its_prompt() -> None:
    history = History()
    history.user("First")
    history.step("One")
    answered = history.asked
    history.user("Second")
    history.step("Late", parent_id=answered)  # what came in between was not promoted for it
    first, one, _, late = history.fork().entries
    assert [one.info.parent_id, late.info.parent_id] == [first.info.id] * 2  # type: ignore[union-attr]


@pytest.mark.spec("T-11")
def test_a_step_whose_prompt_is_not_copied_answers_the_prompt_before_it() -> None:
    history = History()
    history.user("First")
    history.user(history.text("for people", ignored=True))
    history.step("One")
    first, one = history.fork().entries
    assert one.info.parent_id == first.info.id  # type: ignore[union-attr]


@pytest.mark.spec("T-11")
def test_a_copy_that_would_begin_with_a_step_gets_an_opening_message() -> None:
    history = History()
    history.user(history.text("for people", ignored=True))
    history.step("One", agent="plan")
    opening, one = history.fork().entries
    assert request_messages([opening]) == [UserTurn(OPENING)]
    assert isinstance(opening.info, UserMessage)
    assert opening.info.agent == "plan"
    assert opening.info.session_id == CHILD
    assert one.info.parent_id == opening.info.id  # type: ignore[union-attr]
    assert opening.info.id < one.info.id
    assert [part.synthetic for part in opening.parts if isinstance(part, TextPart)] == [True]


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    ("finish", "error", "called", "copied"),
    [
        (None, aborted_error(), False, "stop"),
        (None, aborted_error(), True, "tool-calls"),
        ("error", api_error("overloaded", is_retryable=True), False, "stop"),
        (None, None, False, "stop"),
        ("length", None, False, "length"),
    ],
)
def test_a_failed_step_is_copied_with_its_text_and_without_its_error(
    finish: str | None, error: Any, called: bool, copied: str
) -> None:
    history = History()
    history.user("Go")
    calls = (history.failed_call("Tool execution aborted"),) if called else ()
    history.step("Half a wo", *calls, finish=finish, error=error, time=MessageTime(created=20))
    (made,) = steps(history.fork())
    assert made.finish == copied
    assert made.error is None
    assert made.time.completed == 20
    assert request_messages(history.fork().entries) == request_messages(history.entries)


@pytest.mark.spec("T-11")
def test_a_text_without_an_end_time_gets_one_in_the_copy() -> None:
    history = History()
    history.user("Go")
    history.step(history.text("Half a wo", time=PartTime(start=7)), history.text("Ha", time=TIME))
    _, *said = history.fork().entries[-1].parts
    assert [part.time for part in said if isinstance(part, TextPart)] == [PartTime(start=7, end=7), TIME]


@pytest.mark.spec("T-11")
def test_a_step_that_failed_without_a_word_is_left_out() -> None:
    history = History()
    history.user("Go")
    history.step(finish="error", error=api_error("overloaded", is_retryable=True))
    assert len(history.fork().entries) == 1


@pytest.mark.spec("T-11")
def test_unknown_parts_and_parts_tied_to_the_session_are_not_copied() -> None:
    history = History()
    history.user("Go", decode_part(b'{"type":"poem","id":"prt_1"}'), history.part(AgentPart, name="explore"))
    history.step(
        history.part(ReasoningPart, text="Hm", time=TIME, metadata={"anthropic": {"signature": "c2ln"}}),
        history.part(
            RetryPart, attempt=1, error=api_error("no", is_retryable=True), time=RetryTime(created=1)
        ),
        history.text("Yes", metadata={"openai": {"itemId": "x"}}),
        history.part(PatchPart, hash="abc", files=("a",)),
        history.part(SnapshotPart, snapshot="abc"),
        history.part(StepFinishPart, reason="stop", cost=1, tokens=SPENT),
    )
    asked, made = history.fork().entries
    assert [type(part) for part in asked.parts] == [TextPart, AgentPart]
    assert [type(part) for part in made.parts] == [StepStartPart, TextPart]
    assert request_messages([made]) == [ModelTurn((TextBlock("Yes"),))]
    assert "itemId" not in str(made)


@pytest.mark.spec("T-11")
def test_a_message_with_only_reasoning_is_left_out() -> None:
    history = History()
    history.user("Go")
    history.step(history.part(ReasoningPart, text="Hm", time=TIME))
    assert len(history.fork().entries) == 1


@pytest.mark.spec("T-11")
def test_a_step_without_a_step_start_gets_one_in_the_copy() -> None:
    history = History()
    history.user(history.part(SubtaskPart, prompt="Look", description="look", agent="explore"))
    history.step(history.completed_call("found", "task"), finish="tool-calls")
    begun = history.entries.pop()
    history.entries.append(replace(begun, parts=begun.parts[1:]))
    fork = history.fork()
    assert isinstance(fork.entries[-1].parts[0], StepStartPart)
    assert request_messages(fork.entries) == request_messages(history.entries)


@pytest.mark.spec("T-11")
def test_files_of_a_prompt_are_copied() -> None:
    history = History()
    history.user(
        "See",
        history.part(FilePart, mime="image/png", url="data:image/png;base64,aGk=", filename="a.png"),
        history.part(FilePart, mime="text/plain", url="data:text/plain;base64,aGk=", filename="b.txt"),
        history.part(FilePart, mime="text/plain", url="file:///c.txt", filename="c.txt"),
    )
    assert request_messages(history.fork().entries) == request_messages(history.entries)


@pytest.mark.spec("T-11")
def test_files_of_a_result_are_replaced_by_a_note_in_the_copy() -> None:
    history = History()
    history.user("Go")
    file = history.part(FilePart, mime="image/png", url="data:image/png;base64,aGk=")
    part = history.call(replace(history.completed_call("seen").state, attachments=(file,)))
    history.step(replace(part, metadata={"google": "signed"}), finish="tool-calls")
    (copy,) = [part for part in history.fork().entries[-1].parts if isinstance(part, ToolPart)]
    assert isinstance(copy.state, ToolCompleted)
    assert copy.state.metadata == {}
    assert copy.state.attachments is None
    assert copy.metadata is None
    assert copy.call_id == part.call_id
    assert copy.tool == "read"
    assert copy.state.output == f"seen{FILES_LEFT_OUT}"
    assert copy.state.title == "t"


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    "state",
    [
        ToolPending(input={"a": "b"}, raw='{"a"'),
        ToolRunning(input={"a": "b"}, time=PartTime(start=1)),
        ToolWaiting(input={"a": "b"}, pending_id=CallId("tool_1"), time=PartTime(start=1), output="queued"),
    ],
)
@pytest.mark.parametrize("was_shown", [False, True])
def test_an_open_call_is_closed_with_a_note_in_the_copy(state: ToolState, was_shown: bool) -> None:
    history = History()
    history.user("Go")
    part = history.call(state, "deploy")
    history.step("I deploy.", part, finish="tool-calls")
    fork = history.fork(shown=frozenset({part.id} if was_shown else ()))
    assert outputs(fork) == [UNDER_WAY]
    assert inputs(fork) == [{"a": "b"}]
    assert not any(said.failed for said in request_messages(fork.entries) if isinstance(said, ToolTurn))


@pytest.mark.spec("T-11")
@pytest.mark.parametrize("result", [Completed("v2 is live"), Failed("no route")])
def test_a_late_result_is_copied_once_at_the_place_where_it_arrived(result: Result) -> None:
    history = History()
    history.user("Go")
    part = history.completed_call("v2 is live", "deploy")
    history.step(part, finish="tool-calls")
    history.step("I wait.")
    came = result_text(call(Settled(result, 9), call_id=part.call_id))
    history.user(history.text(came, synthetic=True))
    fork = history.fork(shown=frozenset({part.id}))
    assert outputs(fork) == [pending_text(part.call_id, "deploy")]
    assert texts(fork)[-1] == came
    assert request_messages(fork.entries) == request_messages(history.entries, shown=frozenset({part.id}))


@pytest.mark.spec("T-11")
@pytest.mark.parametrize("synthetic", [True, False])
def test_a_late_result_that_the_copy_lacks_is_not_announced(synthetic: bool) -> None:
    history = History()
    history.user("Go")
    part = history.completed_call("v2 is live", "deploy")
    history.step(part, finish="tool-calls")
    other = result_text(call(Settled(Completed("x"), 9), call_id="another" if synthetic else part.call_id))
    history.user(history.text(other, synthetic=synthetic))  # of another call, or in a person's words
    fork = history.fork(shown=frozenset({part.id}))
    assert outputs(fork) == [UNDER_WAY]
    assert "v2 is live" not in str(fork)


@pytest.mark.spec("T-11")
@pytest.mark.parametrize("call_id", ["toolu_1", "a b (c)", "", "x\ny"])
@pytest.mark.parametrize("result", [Completed("out\n\nput"), Failed(""), Completed("a (b) has failed:\n\nc")])
def test_a_late_result_is_parsed_from_its_text(call_id: str, result: Result) -> None:
    text = result_text(call(Settled(result, 9), call_id=call_id))
    came = parse_late_result(text)
    assert came is not None
    words = result.output if isinstance(result, Completed) else result.error
    assert came.call_id == call_id
    assert came.tool == "deploy"
    assert came.result == words
    assert came.failed == isinstance(result, Failed)
    assert came.heading + came.result == text


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "The pending call x",
        "The pending call x (deploy) has begun:\n\nv2",
        "The pending call x (deploy) has completed:",
        "So: The pending call x (deploy) has completed:\n\nv2",
        "The pending call " + " (" * 100_000 + "\n\n",
    ],
)
def test_other_texts_are_not_parsed_as_a_late_result(text: str) -> None:
    assert parse_late_result(text) is None


@pytest.mark.spec("T-11")
def test_a_pruned_output_stays_cleared_in_the_copy() -> None:
    history = History()
    history.user("Go")
    state = replace(history.completed_call("long ago").state, time=replace(TIME, compacted=50))
    history.step(history.call(state), finish="tool-calls")
    fork = history.fork()
    assert outputs(fork) == [CLEARED]
    assert "long ago" not in str(fork)


@pytest.mark.spec("T-11")
def test_a_summary_is_copied_as_plain_messages_with_its_note() -> None:
    history = History()
    head = summarise_history(history, "Todos that are not done:\n- paint")
    history.user("Go on.")
    fork = history.fork(head)
    assert request_messages(fork.entries) == [
        UserTurn(f"Todos that are not done:\n- paint\n{SUMMARISED}"),
        ModelTurn((TextBlock("They build a shop."),)),
        UserTurn("Go on."),
    ]
    asked, summary, _ = fork.entries
    (made,) = steps(fork)
    assert made.summary is None
    assert made.agent == "build"
    assert made.mode == "build"
    assert made.model_id == "small"
    assert made.parent_id == asked.info.id
    assert isinstance(summary.parts[0], StepStartPart)


@pytest.mark.spec("T-11")
def test_a_summary_without_a_note_is_copied_too() -> None:
    history = History()
    head = summarise_history(history)
    history.step("On it.")
    assert texts(history.fork(head)) == [SUMMARISED, "They build a shop.", "On it."]


@pytest.mark.spec("T-11")
def test_wishes_for_summaries_and_summaries_in_the_tail_are_left_out() -> None:
    history = History()
    history.user("Go")
    history.step("Yes")
    history.summary_wish(history.text("note", synthetic=True))
    history.step("Nobody reads this.", summary=True)
    history.user("On.")
    assert texts(history.fork()) == ["Go", "Yes", "On."]


@pytest.mark.spec("T-11")
def test_the_preamble_explains_the_copy_and_its_use() -> None:
    history = History()
    history.user("Go")
    preamble = history.fork().preamble
    assert preamble.startswith("You are a fork.")
    for words in (
        "your task is the one that follows",
        "may be shortened",
        "read it again",
        "Nothing was cut",
    ):
        assert words in preamble
