"""What a child said and did, as its parent's model reads it."""

from typing import Any

import pytest
from hypothesis import given

from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import UnknownFailure, aborted_error, output_length_error
from asyncagents.domain.conversation.part import (
    FilePart,
    Part,
    PartTime,
    ReasoningPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolRunning,
    ToolState,
)
from asyncagents.domain.conversation.transcript import Transcript, transcript
from asyncagents.domain.id import MessageId, PartId
from tests.support.domain.state import SESSION, step, user
from tests.support.hostile.text import Envelope, forged_notices, hostile_texts, read_envelopes

AT: dict[str, Any] = {"id": PartId("prt_1"), "session_id": SESSION, "message_id": MessageId("msg_1")}
TIME = PartTime(start=1, end=2)


def text(said: str, **more: Any) -> TextPart:
    return TextPart(**AT, text=said, **more)


def thought(said: str) -> ReasoningPart:
    return ReasoningPart(**AT, text=said, time=TIME)


def tool(state: ToolState, name: str = "read") -> ToolPart:
    return ToolPart(**AT, call_id="toolu_1", tool=name, state=state)


def done(output: str, **given: str) -> ToolPart:
    return tool(ToolCompleted(input=given, output=output, title="", metadata={}, time=TIME))


def asked(*parts: Part, id: str = "msg_1") -> MessageWithParts:
    return MessageWithParts(info=user(id), parts=parts)


def answered(*parts: Part | UnknownPart, id: str = "msg_2") -> MessageWithParts:
    return MessageWithParts(info=step("stop", id=id), parts=parts)


FIVE = [asked(text(f"text {n}"), id=f"msg_{n}") for n in range(1, 6)]


@pytest.mark.spec("T-04")
def test_a_transcript_has_each_message_with_its_id_and_role() -> None:
    entries = [asked(text("Where?")), answered(thought("hm"), done("a file", path="x.py"), text("Here."))]
    assert transcript(entries, Transcript()) == (
        '<task_message id="msg_1" role="user">\n'
        "<task_text>\nWhere?\n</task_text>\n"
        "</task_message>\n"
        "\n"
        '<task_message id="msg_2" role="assistant">\n'
        '<task_call tool="read" status="completed">\n'
        '<task_input>\n{"path":"x.py"}\n</task_input>\n</task_call>\n'
        "<task_text>\nHere.\n</task_text>\n"
        "</task_message>"
    )


@pytest.mark.spec("T-04")
def test_thinking_and_results_are_shown_if_they_are_wanted() -> None:
    entries = [answered(thought("x" * 30), done("a file"))]
    wanted = Transcript(include_thinking=True, include_tool_results=True, thinking_max_chars=10)
    assert [(each.tag, each.text) for each in read_envelopes(transcript(entries, wanted))] == [
        ("task_thinking", "x" * 10 + "… (20 more characters)"),
        ("task_input", "{}"),
        ("task_output", "a file"),
        ("task_call", ""),
        ("task_message", ""),
    ]


@pytest.mark.spec("T-04")
def test_a_reader_goes_on_after_the_last_message_it_has_seen() -> None:
    first = transcript(FIVE, Transcript(message_limit=2))
    assert first.endswith('Not shown: 3 later messages. Go on with since_message_id="msg_2".')
    second = transcript(FIVE, Transcript(message_limit=2, since_message_id="msg_2"))
    assert second.endswith('Not shown: 1 later message. Go on with since_message_id="msg_4".')
    third = transcript(FIVE, Transcript(message_limit=2, since_message_id="msg_4"))
    read = [
        each.text
        for told in (first, second, third)
        for each in read_envelopes(told)
        if each.tag == "task_text"
    ]
    assert read == [f"text {n}" for n in range(1, 6)]
    assert transcript(FIVE, Transcript(since_message_id="msg_5")) == "No new messages."


def test_an_empty_transcript_names_the_reason() -> None:
    assert transcript([], Transcript()) == "No messages yet."
    assert transcript(FIVE, Transcript(since_message_id="msg_9")) == (
        'There is no message "msg_9" in this session: leave since_message_id out.'
    )


def test_a_message_limit_below_one_shows_one_message() -> None:
    told = transcript(FIVE, Transcript(message_limit=0))
    assert told.count("<task_message ") == 1


def test_errors_are_shown_whether_results_are_wanted_or_not() -> None:
    failed = tool(ToolFailed(input={}, error="no such file", time=TIME))
    running = tool(ToolRunning(input={}, time=TIME), "bash")
    entry = MessageWithParts(info=step(error=aborted_error("Stopped")), parts=(failed, running))
    told = read_envelopes(transcript([entry], Transcript()))
    assert [each for each in told if each.tag == "task_error"] == [
        Envelope("task_error", "", "no such file"),
        Envelope("task_error", 'error_type="MessageAbortedError"', "Stopped"),
    ]
    assert [each.attributes for each in told if each.tag == "task_call"] == [
        'tool="read" status="error"',
        'tool="bash" status="running"',
    ]


@pytest.mark.parametrize(
    ("error", "name"),
    [(output_length_error(), "MessageOutputLengthError"), (UnknownFailure(b'{"name":"New"}', "New"), "New")],
)
def test_an_error_without_a_message_is_named(error: UnknownFailure, name: str) -> None:
    (inside, _) = read_envelopes(
        transcript([MessageWithParts(info=step(error=error), parts=())], Transcript())
    )
    assert inside == Envelope("task_error", f'error_type="{name}"', "")


def test_synthetic_ignored_and_unknown_parts_are_left_out() -> None:
    unknown = UnknownPart(b"{}", type="new", id=None, session_id=None, message_id=None)
    entry = answered(
        text("hint", synthetic=True),
        text("for people", ignored=True),
        text(" "),
        StepStartPart(**AT),
        unknown,
    )
    assert transcript([entry], Transcript()) == '<task_message id="msg_2" role="assistant">\n</task_message>'


def test_files_and_subtasks_are_named() -> None:
    file = FilePart(**AT, mime="image/png", url="data:image/png;base64,AAAA", filename="a.png")
    nameless = FilePart(**AT, mime="image/png", url="data:image/png;base64," + "A" * 500)
    sub = SubtaskPart(**AT, prompt="Look.", description="A look", agent="explore")
    told = read_envelopes(transcript([asked(file, nameless, sub)], Transcript()))
    assert told[0] == Envelope("task_file", 'mime="image/png"', "a.png")
    assert len(told[1].text) == 80
    assert told[2] == Envelope("task_prompt", 'agent="explore" description="A look"', "Look.")


@pytest.mark.spec("T-04")
@given(hostile_texts.filter(str.strip), hostile_texts.filter(str.strip), hostile_texts)
def test_nothing_a_child_writes_leaves_its_envelope(said: str, thinking: str, output: str) -> None:
    failed = tool(ToolFailed(input={said: output}, error=output, time=TIME), name=said)
    entries = [
        asked(text(said)),
        MessageWithParts(
            info=step(error=aborted_error(output), id="msg_2"),
            parts=(thought(thinking), done(output), failed, text(said)),
        ),
    ]
    told = transcript(entries, Transcript(include_thinking=True, include_tool_results=True))
    found = read_envelopes(told)
    assert [each.tag for each in found] == [
        "task_text", "task_message", "task_thinking", "task_input", "task_output", "task_call",
        "task_input", "task_error", "task_call", "task_text", "task_error", "task_message",
    ]  # fmt: skip
    assert [found[at].text for at in (0, 2, 4, 7, 9, 10)] == [said, thinking, output, output, said, output]
    assert forged_notices(told) == []
