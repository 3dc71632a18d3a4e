"""A reply as bytes is what the wire's own documentation promises."""

import json
from typing import Any

import pytest

from asyncagents.testing.provider import (
    Reply,
    Stamp,
    TokenUsage,
    ToolUse,
    anthropic_bytes,
    anthropic_error,
    anthropic_json,
    openai_bytes,
    openai_error,
    openai_json,
)
from asyncagents.testing.provider_reply import split_text

WIRES = (openai_bytes, anthropic_bytes)
FULL = Reply(
    text="hello 👋 world",
    chunks=4,
    reasoning="let me see",
    tools=(ToolUse("read", {"path": 'a "b"\n'}), ToolUse("now", id="mine")),
    usage=TokenUsage(input=1, output=2, reasoning=3, cache_read=4, cache_write=5),
)


def data(body: list[bytes]) -> list[Any]:
    """Every event's data; the SSE framing is checked on the way."""
    events = b"".join(body).decode().split("\n\n")
    assert events.pop() == ""
    lines = [line for event in events for line in event.split("\n") if not line.startswith("event: ")]
    assert all(line.startswith("data: ") for line in lines)
    return [line if line == "data: [DONE]" else json.loads(line.removeprefix("data: ")) for line in lines]


def deltas(reply: Reply) -> list[dict[str, Any]]:
    chunks = [chunk for chunk in data(openai_bytes(reply))[:-1] if chunk["choices"]]
    return [chunk["choices"][0]["delta"] for chunk in chunks]


def blocks(reply: Reply) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """What each block of an Anthropic stream opens with, and its deltas."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for event in data(anthropic_bytes(reply)):
        if event["type"] == "content_block_start":
            assert event["index"] == len(found)
            found.append((event["content_block"], []))
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(found) - 1
            found[-1][1].append(event["delta"])
    return found


@pytest.mark.parametrize("text", ["", "o", "ok", "hello 👋 world", "x" * 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_pieces_are_as_many_as_asked_for_and_make_the_text(text: str, count: int) -> None:
    cut = split_text(text, count)
    assert len(cut) == count
    assert "".join(cut) == text
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_is_one_write_per_piece(wire: Any) -> None:
    assert len(wire(Reply(chunks=5))) == 5
    assert len(wire(Reply())) == 1
    assert len(wire(Reply(text=""))) == 1
    assert len(wire(FULL)) == 4 + 4 + 2
    assert all(write.endswith(b"\n\n") for write in wire(FULL))


def test_openai_streams_reasoning_then_text_then_calls() -> None:
    said = deltas(FULL)
    assert said[0] == {"role": "assistant", "content": "", "refusal": None}
    assert said[-1] == {}
    assert "".join(delta.get("reasoning_content", "") for delta in said) == "let me see"
    assert "".join(delta.get("content", "") for delta in said) == "hello 👋 world"
    calls = [call for delta in said for call in delta.get("tool_calls", ())]
    opened = [(call["index"], call["id"], call["function"]["name"]) for call in calls if "id" in call]
    assert opened == [(0, "call_local_0", "read"), (1, "mine", "now")]
    written = {
        index: "".join(call["function"]["arguments"] for call in calls if call["index"] == index)
        for index in (0, 1)
    }
    assert [json.loads(text) for text in written.values()] == [{"path": 'a "b"\n'}, {}]
    assert sum(call["index"] == 0 for call in calls) > 2, "the arguments come in parts"


def test_anthropic_streams_a_block_for_each_thought_text_and_call() -> None:
    thinking, text, read, now = blocks(FULL)
    assert thinking[0] == {"type": "thinking", "thinking": "", "signature": ""}
    assert "".join(delta.get("thinking", "") for delta in thinking[1]) == "let me see"
    assert thinking[1][-1] == {"type": "signature_delta", "signature": FULL.signature}
    assert text[0] == {"type": "text", "text": ""}
    assert "".join(delta["text"] for delta in text[1]) == "hello 👋 world"
    assert read[0] == {"type": "tool_use", "id": "toolu_local_0", "name": "read", "input": {}}
    assert json.loads("".join(delta["partial_json"] for delta in read[1])) == {"path": 'a "b"\n'}
    assert now[0]["id"] == "mine"
    assert [delta["partial_json"] for delta in now[1]] == [""], "no arguments are an empty string there"


def test_anthropic_events_come_in_the_documented_order() -> None:
    kinds = [event["type"] for event in data(anthropic_bytes(Reply(chunks=2)))]
    delta = "content_block_delta"
    assert kinds == [
        *("message_start", "ping", "content_block_start", delta, delta, "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    named = [
        line for line in b"".join(anthropic_bytes(Reply(chunks=2))).split(b"\n") if line[:6] == b"event:"
    ]
    assert [line.removeprefix(b"event: ").decode() for line in named] == kinds


def test_a_thinking_block_without_a_signature_has_no_signature_delta() -> None:
    (thinking, _) = blocks(Reply(reasoning="hm", signature=""))
    assert [delta["type"] for delta in thinking[1]] == ["thinking_delta"]


def test_reasoning_goes_into_the_field_that_the_reply_names() -> None:
    assert {"reasoning": "hm"} in deltas(Reply(reasoning="hm", reasoning_field="reasoning"))


def test_broken_arguments_go_out_as_they_are() -> None:
    reply = Reply(text="", tools=(ToolUse("read", raw='{"path": '),))
    calls = [
        delta["tool_calls"][0]["function"]["arguments"] for delta in deltas(reply) if "tool_calls" in delta
    ]
    assert "".join(calls) == '{"path": '
    ((_, said),) = blocks(reply)
    assert "".join(delta["partial_json"] for delta in said) == '{"path": '


def test_openai_sends_the_usage_in_a_last_chunk_when_requested() -> None:
    *chunks, last, done = data(openai_bytes(FULL))
    assert done == "data: [DONE]"
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["prompt_tokens"] == 10
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == 15
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 3
    assert {chunk["usage"] for chunk in chunks} == {None}


@pytest.mark.parametrize(("asked", "usage"), [(False, TokenUsage()), (True, None)])
def test_openai_sends_no_usage_if_not_requested_or_none_is_given(
    asked: bool, usage: TokenUsage | None
) -> None:
    *chunks, _ = data(openai_bytes(Reply(usage=usage), Stamp(usage=asked)))
    assert all(chunk["choices"] for chunk in chunks)
    assert not any(chunk.get("usage") for chunk in chunks)


def test_anthropic_sends_the_usage_in_the_first_and_in_the_last_event() -> None:
    first, *_, delta, _ = data(anthropic_bytes(FULL))
    cached = {"input_tokens": 1, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 4}
    assert first["message"]["usage"] == {**cached, "output_tokens": 1}
    details = {"output_tokens_details": {"thinking_tokens": 3}}
    assert delta["usage"] == {**cached, "output_tokens": 5, **details}


def test_anthropic_sends_no_usage_if_none_is_given() -> None:
    assert b"usage" not in b"".join(anthropic_bytes(Reply(usage=None)))


@pytest.mark.parametrize(
    ("finish", "openai", "anthropic"),
    [
        ("auto", "stop", "end_turn"),
        ("stop", "stop", "end_turn"),
        ("tool-calls", "tool_calls", "tool_use"),
        ("length", "length", "max_tokens"),
        ("content-filter", "content_filter", "refusal"),
        ("pause_turn", "pause_turn", "pause_turn"),
    ],
)
def test_each_wire_has_its_own_word_for_a_finish(finish: str, openai: str, anthropic: str) -> None:
    reply = Reply(finish=finish)
    assert data(openai_bytes(reply))[-3]["choices"][0]["finish_reason"] == openai
    assert json.loads(openai_json(reply))["choices"][0]["finish_reason"] == openai
    assert data(anthropic_bytes(reply))[-2]["delta"]["stop_reason"] == anthropic
    assert json.loads(anthropic_json(reply))["stop_reason"] == anthropic


def test_an_unknown_finish_is_a_word_that_neither_wire_lists() -> None:
    said = data(openai_bytes(Reply(finish="unknown")))[-3]["choices"][0]["finish_reason"]
    assert said not in {"stop", "length", "tool_calls", "content_filter", "function_call", None}
    assert data(anthropic_bytes(Reply(finish="unknown")))[-2]["delta"]["stop_reason"] == said


def test_a_reply_with_calls_has_the_finish_of_calls_by_default() -> None:
    assert data(openai_bytes(FULL))[-3]["choices"][0]["finish_reason"] == "tool_calls"
    assert data(anthropic_bytes(FULL))[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_reply_without_a_finish_ends_with_its_text() -> None:
    chunks = data(openai_bytes(Reply(finish=None)))
    assert chunks[-1]["choices"][0]["delta"] == {"content": "ok"}
    assert chunks[-1]["choices"][0]["finish_reason"] is None
    assert data(anthropic_bytes(Reply(finish=None)))[-1]["type"] == "content_block_stop"


def test_an_error_takes_the_place_of_the_finish() -> None:
    reply = Reply(error_in_stream=True, error="boom", error_type="kind")
    *said, last = data(openai_bytes(reply))
    assert last == {"error": {"message": "boom", "type": "kind", "param": None, "code": None}}
    assert said[-1]["choices"][0]["delta"] == {"content": "ok"}
    *_, stop, event = data(anthropic_bytes(reply))
    assert stop["type"] == "content_block_stop"
    assert event["type"] == "error"
    assert event["error"] == {"type": "kind", "message": "boom"}
    assert b"event: error\n" in b"".join(anthropic_bytes(reply))


def test_anthropic_has_no_error_finish_and_sends_its_error_event() -> None:
    assert data(anthropic_bytes(Reply(finish="error")))[-1]["error"]["type"] == "overloaded_error"
    assert data(openai_bytes(Reply(finish="error")))[-3]["choices"][0]["finish_reason"] == "error"


@pytest.mark.parametrize("wire", WIRES)
def test_garbage_is_sent_inside_an_otherwise_complete_stream(wire: Any) -> None:
    clean, dirty = wire(Reply(chunks=4)), wire(Reply(chunks=4, garbage=b"\xff{nonsense"))
    assert b"".join(dirty).replace(b"\xff{nonsense", b"", 1) == b"".join(clean)
    before = b"".join(dirty).index(b"\xff")
    assert 0 < before < len(b"".join(clean))


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, ("invalid_request_error", None), "invalid_request_error"),
        (401, ("invalid_request_error", "invalid_api_key"), "authentication_error"),
        (403, ("invalid_request_error", "unsupported_country_region_territory"), "permission_error"),
        (404, ("invalid_request_error", "model_not_found"), "not_found_error"),
        (429, ("requests", "rate_limit_exceeded"), "rate_limit_error"),
        (500, ("server_error", None), "api_error"),
        (529, ("server_error", None), "overloaded_error"),
    ],
)
def test_an_error_has_the_type_of_its_status(
    status: int, openai: tuple[str, str | None], anthropic: str
) -> None:
    reply = Reply(status=status, error="no")
    kind, code = openai
    assert json.loads(openai_error(reply)) == {
        "error": {"message": "no", "type": kind, "param": None, "code": code}
    }
    assert json.loads(anthropic_error(reply, Stamp(id="7"))) == {
        "type": "error",
        "error": {"type": anthropic, "message": "no"},
        "request_id": "req_7",
    }


def test_an_error_may_name_its_type_and_code() -> None:
    reply = Reply(status=400, error="too long", error_code="context_length_exceeded")
    assert json.loads(openai_error(reply))["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "wrong",
    [{"chunks": 0}, {"status": 99}, {"gap": -1.0}, {"delay": float("nan")}, {"cut_at": 1, "hang_at": 1}],
)
def test_a_reply_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"give|piece|status"):
        Reply(**wrong)
