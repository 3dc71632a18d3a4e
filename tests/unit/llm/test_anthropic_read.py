"""Anthropic's events, as they come from Anthropic and from servers that speak like it."""

from typing import Any

import pytest

from asyncagents.domain.conversation.failure import APIError, ContextOverflowError, ProviderAuthError
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.shape import encode
from asyncagents.llm.model import (
    Finish,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StreamError,
    StreamFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
)
from tests.support.llm.stream import (
    ANTHROPIC_ANSWER,
    anthropic_reader,
    block_delta,
    block_start,
    block_stop,
    calls_of,
    event,
    finish_of,
    message_end,
    message_start,
    play,
    text_of,
)


def said(*stream: bytes) -> list[ModelEvent]:
    return play(anthropic_reader(), stream)


def call(*pieces: str, **block: Any) -> bytes:
    opening = {"type": "tool_use", "id": "toolu_a", "name": "read", "input": {}, **block}
    deltas = b"".join(block_delta(0, "input_json_delta", partial_json=piece) for piece in pieces)
    return block_start(0, **opening) + deltas + block_stop(0)


@pytest.mark.spec("C-02", "C-07")
def test_an_answer_becomes_its_events_in_order() -> None:
    signed = {"anthropic": {"signature": "c2lnbmVk", "model": "sage-1"}}
    counted = Tokens(input=10, output=12, reasoning=0, cache=CacheTokens(read=20, write=4), total=46)
    assert said(ANTHROPIC_ANSWER) == [
        ReasoningStart("thinking-1"),
        ReasoningDelta("thinking-1", "Let me "),
        ReasoningDelta("thinking-1", "see…"),
        ReasoningEnd("thinking-1", signed),
        TextStart("text-2"),
        TextDelta("text-2", "Grüße 🌍, "),
        TextDelta("text-2", 'say "hi"\nthere'),
        TextEnd("text-2"),
        ToolCallStart("toolu_a", "read"),
        ToolCallReady("toolu_a", "read", {"path": "a.txt"}),
        ToolCallStart("toolu_b", "ls"),
        ToolCallReady("toolu_b", "ls", {}),
        StepFinish("tool-calls", counted),
        StreamFinish(),
    ]


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool-calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("pause_turn", "unknown"),
        ("something_new", "unknown"),
    ],
)
def test_a_stop_reason_has_one_of_our_names(reason: str, finish: Finish) -> None:
    found = finish_of(said(message_start(), message_end(reason)))
    assert found is not None
    assert found.finish == finish


def test_a_stream_without_a_stop_reason_has_no_finish() -> None:
    events = said(message_start(), block_start(0, type="text", text=""), message_end(None))
    assert finish_of(events) is None
    assert StreamFinish() not in events


def test_a_stream_that_lacks_only_its_last_event_is_finished() -> None:
    cut = message_end("end_turn", output_tokens=3).partition(b"event: message_stop")[0]
    finish = finish_of(said(message_start(input_tokens=2), cut))
    assert finish is not None
    assert finish.tokens is not None
    assert finish.tokens.total == 5


def test_redacted_thinking_is_kept_for_later_requests() -> None:
    events = said(block_start(0, type="redacted_thinking", data="b3BhcXVl"), block_stop(0))
    hidden = {"anthropic": {"redacted": "b3BhcXVl", "model": "sage-1"}}
    assert [event for event in events if isinstance(event, ReasoningEnd)] == [
        ReasoningEnd("redacted_thinking-1", hidden)
    ]


def test_text_that_comes_with_the_start_of_its_block_is_not_lost() -> None:
    assert text_of(said(block_start(0, type="text", text="Hello"), block_stop(0))) == "Hello"


def test_unknown_kinds_of_events_and_blocks_are_ignored() -> None:
    events = said(
        event("weather_report", index=0, delta={"type": "rain"}),
        block_start(0, type="server_tool_use", id="srv_1", name="web_search", input={}),
        block_delta(0, "input_json_delta", partial_json="{}"),
        block_stop(0),
        block_start(1, type="text", text=""),
        block_delta(1, "citations_delta", citation={"type": "page"}),
        block_delta(1, "text_delta", text="fine"),
        block_stop(1),
        message_end("end_turn"),
    )
    assert text_of(events) == "fine"
    assert calls_of(events) == []
    assert finish_of(events) == StepFinish("stop")


def test_a_delta_without_its_block_is_ignored() -> None:
    assert said(block_delta(4, "text_delta", text="lost"), block_stop(4)) == []


def test_blocks_that_were_not_closed_are_closed_with_the_step() -> None:
    events = said(
        block_start(0, type="text", text=""), block_delta(0, "text_delta", text="x"), message_end("end_turn")
    )
    assert TextEnd("text-1") in events


def test_a_call_whose_arguments_come_with_its_start_is_ready() -> None:
    assert calls_of(said(call(input={"n": 1}))) == [("toolu_a", "read", {"n": 1})]


def test_a_call_without_arguments_has_an_empty_input() -> None:
    assert calls_of(said(call(""))) == [("toolu_a", "read", {})]


@pytest.mark.parametrize("broken", ['{"n": ', "[1]", "nope"])
def test_broken_arguments_leave_their_call_unready(broken: str) -> None:
    events = said(call(broken), message_end("tool_use"))
    assert ToolCallStart("toolu_a", "read") in events
    assert calls_of(events) == []
    assert finish_of(events) == StepFinish("tool-calls")


def test_calls_without_an_id_of_their_own_get_one() -> None:
    found = calls_of(said(call(id=None), call(id=""), call(id="same"), call(id="same")))
    assert len({key for key, _, _ in found}) == 4


def test_a_call_that_was_cut_off_is_not_ready() -> None:
    whole = call('{"n":', "1}")
    assert calls_of(said(whole.partition(b"event: content_block_stop")[0])) == []


@pytest.mark.spec("C-07")
def test_usage_adds_cached_tokens_beside_the_input_and_takes_thinking_out_of_the_output() -> None:
    last = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}}
    stop = event("message_delta", delta={"stop_reason": "end_turn"}, usage=last)
    start = message_start(
        input_tokens=30, cache_read_input_tokens=60, cache_creation_input_tokens=10, output_tokens=1
    )
    finish = finish_of(said(start, stop))
    assert finish is not None
    assert finish.tokens == Tokens(
        input=30, output=30, reasoning=20, cache=CacheTokens(read=60, write=10), total=150
    )


def test_usage_may_come_whole_at_the_end_or_in_part() -> None:
    end = finish_of(
        said(message_start(input_tokens=0), message_end("end_turn", input_tokens=9, output_tokens=3))
    )
    part = finish_of(
        said(message_start(input_tokens=9), message_end("end_turn", input_tokens=0, output_tokens=3))
    )
    assert end == part
    assert end is not None
    assert end.tokens is not None
    assert end.tokens.input == 9
    assert end.tokens.output == 3


def test_without_usage_the_tokens_are_unknown() -> None:
    assert finish_of(said(event("message_delta", delta={"stop_reason": "end_turn"}))) == StepFinish("stop")


def test_pings_and_empty_pieces_do_not_count_as_content() -> None:
    reader = anthropic_reader()
    play(reader, [message_start(input_tokens=1), event("ping"), block_start(0, type="text", text="")])
    play(reader, [block_delta(0, "text_delta", text=""), block_stop(0), event("message_delta", delta={})])
    assert not reader.has_content


@pytest.mark.parametrize(
    ("block", "delta"),
    [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "x"}),
        ({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "x"}),
        ({"type": "tool_use", "id": "a", "name": "ls"}, {"type": "input_json_delta", "partial_json": "{"}),
    ],
)
def test_text_thinking_and_arguments_count_as_content(block: dict[str, Any], delta: dict[str, Any]) -> None:
    reader = anthropic_reader()
    play(reader, [block_start(0, **block)])
    reader.has_content = False
    play(reader, [event("content_block_delta", index=0, delta=delta)])
    assert reader.has_content


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    ("kind", "failure", "retryable"),
    [
        ("overloaded_error", APIError, True),
        ("api_error", APIError, True),
        ("rate_limit_error", APIError, True),
        ("timeout_error", APIError, True),
        ("invalid_request_error", APIError, False),
        ("billing_error", APIError, False),
        ("authentication_error", ProviderAuthError, False),
        ("request_too_large", ContextOverflowError, False),
    ],
)
def test_an_error_inside_the_stream_ends_it(kind: str, failure: type[object], *, retryable: bool) -> None:
    events = said(
        block_start(0, type="text", text=""),
        block_delta(0, "text_delta", text="half"),
        event("error", error={"type": kind, "message": "it broke"}),
        block_delta(0, "text_delta", text="more"),
        message_end("end_turn"),
    )
    last = events[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, failure)
    assert not isinstance(last.failure, APIError) or last.failure.data.is_retryable == retryable
    assert text_of(events) == "half"


@pytest.mark.parametrize(
    "garbage", [b"{nope", b"<html>", b'"text"', b"[1]", b'{"type": 5}', b"{}", b"\xff\xfe"]
)
def test_garbage_inside_the_stream_ends_it_and_is_shown(garbage: bytes) -> None:
    last = said(message_start(), b"data: " + garbage + b"\n\n", message_end("end_turn"))[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, APIError)
    assert last.failure.data.is_retryable
    assert "acme sent a broken event" in last.failure.data.message


@pytest.mark.parametrize(
    "tail", [b"data: {nope\n\n", event("error", error={"type": "overloaded_error", "message": "bye"})]
)
def test_an_error_after_the_finish_does_not_discard_the_answer(tail: bytes) -> None:
    finish = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    events = said(message_start(input_tokens=2), block_start(0, type="text", text="whole"), finish, tail)
    assert text_of(events) == "whole"
    assert events[-1] == StreamFinish()
    assert not any(isinstance(event, StreamError) for event in events)


@pytest.mark.parametrize("name", [None, ""])
def test_a_call_without_a_name_is_started_and_never_ready(name: str | None) -> None:
    events = said(call('{"a": 1}', name=name), message_end("tool_use"))
    assert ToolCallStart("toolu_a", "unknown") in events
    assert calls_of(events) == []


def test_half_a_character_in_a_name_or_a_signature_is_replaced() -> None:
    odd = block_start(0, type="tool_use", id="a", name="PIECE", input={}).replace(b"PIECE", b"l\\ud83ds")
    thought = block_delta(1, "signature_delta", signature="PIECE").replace(b"PIECE", b"c\\udc80")
    events = said(odd, block_start(1, type="thinking", thinking=""), thought, message_end("tool_use"))
    assert ToolCallReady("a", "l?s", {}) in events
    assert encode(events)


def test_half_a_character_in_a_text_is_replaced() -> None:
    odd = block_delta(0, "text_delta", text="PIECE").replace(b"PIECE", b"\\ud83d")
    events = said(block_start(0, type="text", text="x"), odd, block_stop(0), message_end("end_turn"))
    assert text_of(events) == "x?"
    assert finish_of(events) == StepFinish("stop")
