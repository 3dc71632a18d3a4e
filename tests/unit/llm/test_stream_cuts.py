"""Streams of both wires, cut at every byte: into chunks, and off."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.llm.model import ModelEvent, StepFinish, StreamError, StreamFinish, ToolCallReady
from tests.support.llm.stream import (
    ANSWERS,
    MakeReader,
    anthropic_reader,
    finish_of,
    in_bytes,
    openai_reader,
    play,
    text_of,
)

either_answer = pytest.mark.parametrize(("make", "answer"), ANSWERS.values(), ids=ANSWERS)


@either_answer
@pytest.mark.spec("C-02")
def test_two_chunks_yield_the_same_events_wherever_the_cut_is(make: MakeReader, answer: bytes) -> None:
    whole = play(make(), [answer])
    assert text_of(whole) == 'Grüße 🌍, say "hi"\nthere'
    assert finish_of(whole) is not None
    for cut in range(len(answer)):
        assert play(make(), [answer[:cut], answer[cut:]]) == whole


@either_answer
def test_single_bytes_yield_the_same_events_as_the_whole_stream(make: MakeReader, answer: bytes) -> None:
    assert play(make(), in_bytes(answer)) == play(make(), [answer])


@either_answer
@pytest.mark.spec("C-01", "C-05")
def test_a_stream_cut_off_at_any_byte_has_no_finish_unless_it_is_complete(
    make: MakeReader, answer: bytes
) -> None:
    whole = play(make(), [answer])
    unfinished = 0
    for cut in range(len(answer)):
        events = play(make(), [answer[:cut]])
        assert not any(isinstance(event, StreamError) for event in events)
        if finish_of(events) is None:
            unfinished += 1
            assert StreamFinish() not in events
            assert begins(whole, events)
        else:
            assert without_tokens(events) == without_tokens(whole)
    assert unfinished > len(answer) * 0.8


def begins(whole: list[ModelEvent], part: list[ModelEvent]) -> bool:
    """Nothing was said in the part that the whole does not say, in this order."""
    return whole[: len(part)] == part


def without_tokens(events: list[ModelEvent]) -> list[ModelEvent]:
    return [StepFinish(event.finish) if isinstance(event, StepFinish) else event for event in events]


@given(st.sampled_from([openai_reader, anthropic_reader]), st.binary(max_size=200), st.data())
def test_no_bytes_make_a_reader_raise(make: MakeReader, noise: bytes, data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from([stream for _, stream in ANSWERS.values()]))
    start = data.draw(st.integers(0, len(answer)))
    end = data.draw(st.integers(start, len(answer)))
    events = play(make(), [answer[:start], noise, answer[end:]])
    assert sum(isinstance(event, StepFinish | StreamError) for event in events) <= 1


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PAYLOADS = [
    (make, json.loads(line.removeprefix(b"data: ")))
    for make, stream in (ANSWERS["openai"], ANSWERS["anthropic"])
    for line in stream.split(b"\n")
    if line.startswith(b"data: {")
]


@given(st.sampled_from(PAYLOADS), ODD, st.data())
def test_an_odd_value_anywhere_in_an_event_makes_no_reader_raise(
    payload: tuple[MakeReader, Any], odd: object, data: st.DataObject
) -> None:
    make, event = payload
    path = data.draw(st.sampled_from(paths(event)))
    stream = b"data: " + json.dumps(replaced(event, path, odd)).encode() + b"\n\n"
    whole = next(stream for maker, stream in ANSWERS.values() if maker is make)
    events = play(make(), [whole[: data.draw(st.integers(0, len(whole)))], b"\n\n", stream, whole])
    assert sum(isinstance(event, StepFinish | StreamError) for event in events) == 1
    assert all(isinstance(event.input, dict) for event in events if isinstance(event, ToolCallReady))


def paths(value: Any) -> list[tuple[Any, ...]]:
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    keys = list(range(len(value))) if isinstance(value, list) else keys
    return [(), *((key, *rest) for key in keys for rest in paths(value[key]))]


def replaced(value: Any, path: tuple[Any, ...], by: object) -> Any:
    if not path:
        return by
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy
