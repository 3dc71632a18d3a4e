"""OpenAI's chunks, as they come from OpenAI and from servers that speak like it."""

from typing import Any

import pytest

from asyncagents.domain.conversation.failure import APIError, ContextOverflowError
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.http.answer_size import AnswerSize
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
from asyncagents.llm.openai.calls import CallAssembler, FunctionDelta, ToolDelta
from tests.support.llm.stream import (
    DONE,
    OPENAI_ANSWER,
    calls_of,
    chunk,
    finish_of,
    openai_reader,
    play,
    text_of,
    tool_delta,
)


def said(*stream: bytes) -> list[ModelEvent]:
    return play(openai_reader(), stream)


def calls(*deltas: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    return calls_of(said(*deltas, chunk({}, "tool_calls"), DONE))


def tokens(**usage: Any) -> Tokens | None:
    finish = finish_of(said(chunk({}, "stop"), chunk({}, choices=[], usage=usage), DONE))
    assert finish is not None
    return finish.tokens


@pytest.mark.spec("C-02", "C-07")
def test_an_answer_becomes_its_events_in_order() -> None:
    kept = {"openai": {"field": "reasoning_content", "model": "sage-1"}}
    counted = Tokens(input=10, output=7, reasoning=5, cache=CacheTokens(read=20, write=0), total=42)
    assert said(OPENAI_ANSWER) == [
        ReasoningStart("reasoning-1"),
        ReasoningDelta("reasoning-1", "Let me "),
        ReasoningDelta("reasoning-1", "see…"),
        ReasoningEnd("reasoning-1", kept),
        TextStart("text-2"),
        TextDelta("text-2", "Grüße 🌍, "),
        TextDelta("text-2", 'say "hi"\nthere'),
        TextEnd("text-2"),
        ToolCallStart("call_a", "read"),
        ToolCallStart("call_b", "ls"),
        ToolCallReady("call_a", "read", {"path": "a.txt"}),
        ToolCallReady("call_b", "ls", {}),
        StepFinish("tool-calls", counted),
        StreamFinish(),
    ]


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("error", "error"),
        ("eos", "unknown"),
        ("pause_turn", "unknown"),
    ],
)
def test_a_finish_reason_has_one_of_our_names(reason: str, finish: Finish) -> None:
    found = finish_of(said(chunk({"content": "x"}), chunk({}, reason), DONE))
    assert found is not None
    assert found.finish == finish


@pytest.mark.parametrize("reason", [None, ""])
def test_a_stream_without_a_finish_reason_has_no_finish(reason: str | None) -> None:
    events = said(chunk({"content": "x"}, reason), DONE)
    assert finish_of(events) is None
    assert StreamFinish() not in events


def test_a_stream_without_its_done_is_finished_all_the_same() -> None:
    assert finish_of(said(chunk({"content": "x"}), chunk({}, "stop"))) == StepFinish("stop")


def test_nothing_is_read_after_done() -> None:
    assert text_of(said(chunk({"content": "x"}, "stop"), DONE + chunk({"content": "y"}))) == "x"


def test_alternating_texts_and_thoughts_become_separate_blocks() -> None:
    events = said(
        chunk({"reasoning": "a"}), chunk({"content": "b"}), chunk({"reasoning": "c"}),
        chunk({"content": "d"}), chunk({}, "stop"), DONE,
    )  # fmt: skip
    starts = [event for event in events if isinstance(event, TextStart | ReasoningStart)]
    assert [type(event).__name__ for event in starts] == [
        "ReasoningStart", "TextStart", "ReasoningStart", "TextStart",
    ]  # fmt: skip
    assert len({event.id for event in starts}) == 4
    assert sum(isinstance(event, TextEnd | ReasoningEnd) for event in events) == 4


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {
            "reasoning_details": [
                {"type": "reasoning.summary", "summary": "hm"},
                {"type": "reasoning.encrypted"},
            ]
        },
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_thoughts_are_read_wherever_a_server_puts_them(delta: dict[str, Any]) -> None:
    events = said(chunk(delta), chunk({"content": "yes"}, "stop"), DONE)
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm"]
    assert text_of(events) == "yes"


def test_content_in_parts_is_text() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}, {"type": "image"}]
    assert text_of(said(chunk({"content": parts}), chunk({}, "stop"))) == "one two"


def test_a_refusal_is_shown_as_text() -> None:
    events = said(chunk({"refusal": "I cannot "}), chunk({"refusal": "help."}), chunk({}, "stop"), DONE)
    assert text_of(events) == "I cannot help."


def test_empty_pieces_yield_no_event_and_do_not_count_as_content() -> None:
    reader = openai_reader()
    empty = [chunk({"content": ""}), chunk({"role": "assistant", "content": None}), chunk({}, choices=[])]
    assert play(reader, empty) == []
    assert not reader.has_content


@pytest.mark.parametrize(
    "meant",
    [
        chunk({"content": "x"}),
        chunk({"reasoning": "x"}),
        tool_delta(index=0, id="a", name="read"),
        tool_delta(index=0, arguments="{"),
        chunk({}, "stop"),
    ],
)
def test_text_reasoning_calls_and_a_finish_count_as_content(meant: bytes) -> None:
    reader = openai_reader()
    play(reader, [meant])
    assert reader.has_content


@pytest.mark.parametrize(
    "deltas",
    [
        [tool_delta(index=0, id="a", name="read", arguments=""), tool_delta(index=0, arguments='{"n":1}')],
        [tool_delta(index=0, id="a", name="read", arguments='{"n":1}')],
        [tool_delta(id="a", name="read", arguments='{"n"'), tool_delta(id="a", arguments=":1}")],
        [tool_delta(id="a", name="read", arguments='{"n"'), tool_delta(arguments=":1}")],
        [tool_delta(index=0, id="a", name="read", arguments='{"n"'),
         tool_delta(index=0, id="", name="", arguments=":1}")],
        [tool_delta(index=0, id="a", name="read", arguments='{"n"'),
         tool_delta(index=0, id="a", name="read", arguments=":1}")],
        [tool_delta(index=0, id="a", arguments='{"n"'), tool_delta(index=0, name="read", arguments=":1}")],
        [tool_delta(index=0, id="a", name="read", arguments={"n": 1})],
        [tool_delta(index=0, id="a", name="read", arguments='"{\\"n\\":1}"')],
        [chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read"}},
                               {"index": 0, "function": {"arguments": '{"n":1}'}}]})],
    ],
)  # fmt: skip
def test_a_call_is_assembled_from_each_form_that_servers_send(deltas: list[bytes]) -> None:
    assert calls(*deltas) == [("a", "read", {"n": 1})]


@pytest.mark.parametrize(
    "deltas",
    [
        [tool_delta(index=0, id="a", name="read", arguments='{"n":'),
         tool_delta(index=1, id="b", name="ls", arguments='{"m":'),
         tool_delta(index=0, arguments="1}"), tool_delta(index=1, arguments="2}")],
        [tool_delta(id="a", name="read", arguments='{"n":1}'),
         tool_delta(id="b", name="ls", arguments='{"m":2}')],
        [tool_delta(index=0, id="a", name="read", arguments='{"n":1}'),
         tool_delta(index=0, id="b", name="ls", arguments='{"m":2}')],
        [chunk({"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"n":1}'}},
            {"index": 1, "id": "b", "function": {"name": "ls", "arguments": '{"m":2}'}}]})],
    ],
)  # fmt: skip
def test_calls_side_by_side_do_not_mix(deltas: list[bytes]) -> None:
    assert calls(*deltas) == [("a", "read", {"n": 1}), ("b", "ls", {"m": 2})]


@pytest.mark.parametrize(
    "deltas",
    [
        [tool_delta(name="read", arguments='{"n":1}'), tool_delta(name="read", arguments='{"n":2}')],
        [tool_delta(index=0, name="read", arguments='{"n":1}'),
         tool_delta(index=0, name="read", arguments='{"n":2}')],
        [tool_delta(index=0, id="same", name="read", arguments='{"n":1}'),
         tool_delta(index=1, id="same", name="read", arguments='{"n":2}')],
        [tool_delta(index=0, id="", name="read", arguments='{"n":1}'),
         tool_delta(index=1, id="", name="read", arguments='{"n":2}')],
    ],
)  # fmt: skip
def test_calls_without_an_id_of_their_own_get_one(deltas: list[bytes]) -> None:
    found = calls(*deltas)
    assert [(tool, given) for _, tool, given in found] == [("read", {"n": 1}), ("read", {"n": 2})]
    assert len({key for key, _, _ in found}) == 2


def test_a_call_without_arguments_has_an_empty_input() -> None:
    assert calls(tool_delta(index=0, id="a", name="ls")) == [("a", "ls", {})]
    assert calls(tool_delta(index=0, id="a", name="ls", arguments="null")) == [("a", "ls", {})]


@pytest.mark.parametrize("broken", ['{"n": ', "[1]", "nope", '"text"', "{'n': 1}", '{"n": "\\ud800"'])
def test_broken_arguments_leave_only_their_own_call_unready(broken: str) -> None:
    events = said(
        tool_delta(index=0, id="a", name="read", arguments=broken),
        tool_delta(index=1, id="b", name="ls", arguments="{}"),
        chunk({}, "tool_calls"),
        DONE,
    )
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["a", "b"]
    assert calls_of(events) == [("b", "ls", {})]
    assert finish_of(events) == StepFinish("tool-calls")


def test_a_call_without_a_name_is_started_and_never_ready() -> None:
    events = said(tool_delta(index=0, id="a", arguments="{}"), chunk({}, "tool_calls"), DONE)
    assert ToolCallStart("a", "unknown") in events
    assert calls_of(events) == []


def test_many_calls_with_an_id_and_no_index_take_linear_time() -> None:
    """Each comparison of two ids is counted: there are as many as calls, and not their square."""

    class Id(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Id.compared += 1
            return str.__eq__(self, other)

    calls = CallAssembler("1", AnswerSize())
    for number in range(500):
        calls.add(ToolDelta(id=Id(f"call_{number}"), function=FunctionDelta("ls", "{}")))
    assert len(calls.ready_events()) == 500
    assert Id.compared < 5000


@pytest.mark.parametrize("tail", [b"data: {nope\n\n", b'data: {"error": {"message": "bye"}}\n\n'])
def test_an_error_after_the_finish_does_not_discard_the_answer(tail: bytes) -> None:
    events = said(chunk({"content": "whole"}), chunk({}, "stop"), tail, DONE)
    assert text_of(events) == "whole"
    assert events[-1] == StreamFinish()
    assert not any(isinstance(event, StreamError) for event in events)


def test_an_error_after_the_finish_reason_error_gives_the_message() -> None:
    error = b'data: {"error": {"code": 502, "message": "upstream went away"}}\n\n'
    last = said(chunk({"content": "half"}), chunk({}, "error"), error)[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, APIError)
    assert "upstream went away" in last.failure.data.message


def test_a_call_in_the_old_field_function_call_is_read() -> None:
    old = [
        chunk({"function_call": {"name": "read", "arguments": '{"n"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
    ]
    found = calls_of(said(*old, chunk({}, "function_call"), DONE))
    assert [(tool, given) for _, tool, given in found] == [("read", {"n": 1})]


@pytest.mark.spec("C-07")
def test_usage_leaves_cached_tokens_out_of_the_input_and_reasoning_out_of_the_output() -> None:
    assert tokens(
        prompt_tokens=100,
        completion_tokens=50,
        total_tokens=150,
        prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 10},
        completion_tokens_details={"reasoning_tokens": 20},
    ) == Tokens(input=30, output=30, reasoning=20, cache=CacheTokens(read=60, write=10), total=150)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 0, 0, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, (10, 5, 0, 0, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, (6, 5, 0, 4, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22,
          "completion_tokens_details": {"reasoning_tokens": 7}}, (10, 5, 7, 0, 22)),
        ({"prompt_tokens": 10.0, "completion_tokens": "?", "total_tokens": None}, (10, 0, 0, 0, 10)),
    ],
)  # fmt: skip
def test_usage_is_read_as_each_server_counts(usage: dict[str, Any], expected: tuple[int, ...]) -> None:
    found = tokens(**usage)
    assert found is not None
    assert (found.input, found.output, found.reasoning, found.cache.read, found.total) == expected


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": -1}, {"prompt_tokens": 1e300}])
def test_usage_that_counts_nothing_is_unknown(usage: dict[str, Any]) -> None:
    assert tokens(**usage) is None


def test_usage_may_come_with_every_chunk_and_the_last_one_counts() -> None:
    growing = [
        chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": n, "total_tokens": 9 + n})
        for n in (1, 2, 3)
    ]
    finish = finish_of(said(*growing, chunk({}, "stop"), DONE))
    assert finish is not None
    assert finish.tokens is not None
    assert finish.tokens.output == 3


@pytest.mark.spec("C-05")
@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error":{"message":"upstream died","type":"server_error"}}\n\n',
        b'event: error\ndata: {"error":"upstream died"}\n\n',
        b'data: {"object":"error","message":"upstream died","code":500}\n\n',
        chunk({}, "error", error={"code": 502, "message": "upstream died"}),
    ],
)
def test_an_error_inside_the_stream_ends_it(error: bytes) -> None:
    events = said(chunk({"content": "half"}), error, chunk({"content": "more"}), chunk({}, "stop"), DONE)
    last = events[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, APIError)
    assert last.failure.data.is_retryable
    assert last.failure.data.message.endswith("upstream died")
    assert text_of(events) == "half"
    assert finish_of(events) is None


def test_an_overflow_inside_the_stream_is_recognised() -> None:
    body = b'data: {"error":{"message":"x","code":"context_length_exceeded"}}\n\n'
    last = said(body)[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, ContextOverflowError)


@pytest.mark.parametrize("garbage", [b"{nope", b"<html>", b'"text"', b"[1]", b'{"choices": 5}', b"\xff\xfe"])
def test_garbage_inside_the_stream_ends_it_and_is_shown(garbage: bytes) -> None:
    last = said(chunk({"content": "half"}), b"data: " + garbage + b"\n\n", chunk({}, "stop"), DONE)[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.failure, APIError)
    assert last.failure.data.is_retryable
    assert "acme sent a broken event" in last.failure.data.message


@pytest.mark.parametrize(("piece", "kept"), [(b"\\ud83d", "?"), (b"\xf0\x9f", "\ufffd"), (b"a\tb", "a\tb")])
def test_half_a_character_in_a_text_is_replaced(piece: bytes, kept: str) -> None:
    odd = chunk({"content": "PIECE"}).replace(b"PIECE", piece)
    events = said(chunk({"content": "x"}), odd, chunk({"content": "y"}, "stop"), DONE)
    assert text_of(events) == f"x{kept}y"
    assert finish_of(events) == StepFinish("stop")
