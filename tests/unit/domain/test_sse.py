"""Server-sent events: what comes out does not depend on how the bytes were cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.sse import EventTooLong, SseDecoder, SseEvent

WORDS = (b"data: ", b"data:", b"data", b"event: x", b": note", b"id: 1", b"{}", b" ", b"\n", b"\r", b"\r\n")


LIMIT = 1 << 20
STREAM = (
    b"retry: 3000\n\n"
    b'id: e-0-1\nevent: cursor\ndata: {"cursor":"e-0-1"}\n\n'
    b": a comment\n\n"
    b"event: without data\nid: e-0-9\n\n"
    b"event: message.part.delta\ndata: {}\n\n"
    b"event: task.updated\nid:e-0-2\ndata:{}\n\n"
    b"data: unnamed\n\n"
    b"id: e-0-3\ndata: {\nevent: late\ndata\ndata:}\n\n"
    b"event: cut\ndata: {"
)
EVENTS = [
    SseEvent(b'{"cursor":"e-0-1"}', "cursor", "e-0-1"),
    SseEvent(b"{}", "message.part.delta"),
    SseEvent(b"{}", "task.updated", "e-0-2"),
    SseEvent(b"unnamed"),
    SseEvent(b"{\n\n}", "late", "e-0-3"),
]


def events_in(*chunks: bytes) -> list[SseEvent]:
    decoder = SseDecoder(LIMIT)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def decoded(*chunks: bytes, limit: int = LIMIT) -> list[bytes]:
    decoder = SseDecoder(limit)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [event.data for event in events + decoder.end()]


def by_the_letter(stream: bytes) -> list[bytes]:
    """The rules of the format, read off one by one: slow, and on the whole stream."""
    lines = re.split(rb"\r\n|\r|\n", stream)[:-1]
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*lines, b""]:
        field, _, value = line.partition(b":")
        if line == b"" and data:
            events.append(b"\n".join(data))
            data = []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
    return events


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.lists(st.integers(0, 120), max_size=8))
def test_any_stream_cut_anywhere_is_decoded_like_the_reference(words: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(words)
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(places)]
    assert decoded(*chunks) == by_the_letter(stream)
    assert decoded(*(stream[n : n + 1] for n in range(len(stream)))) == by_the_letter(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_type_and_id_do_not_depend_on_where_the_stream_is_cut(end: bytes, cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", end)
    places = [0, *sorted(cuts), len(stream)]
    assert events_in(*(stream[start:end] for start, end in pairwise(places))) == EVENTS


def test_an_event_type_that_is_not_utf_8_is_decoded_with_replacements() -> None:
    assert events_in(b"event: \xff\nid: \xff\ndata: x\n\n") == [SseEvent(b"x", "\ufffd", "\ufffd")]


def test_one_chunk_may_hold_many_events_and_the_beginning_of_another() -> None:
    decoder = SseDecoder(LIMIT)
    whole = decoder.feed(b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: {"c"')
    assert whole == [SseEvent(b'{"a":1}'), SseEvent(b'{"b":2}')]
    assert decoder.feed(b":3}\n") == []
    assert decoder.feed(b"\n") == [SseEvent(b'{"c":3}')]


def test_comments_and_other_fields_are_no_events() -> None:
    assert decoded(b": OPENROUTER PROCESSING\n\nevent: ping\nid: 7\nretry: 3\n\ndata: x\n\n") == [b"x"]


def test_data_on_several_lines_is_one_event() -> None:
    assert decoded(b'data: {\ndata: "a": 1\ndata: }\n\n') == [b'{\n"a": 1\n}']


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_kind_of_line_end_ends_a_line(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: one", b"", b": note", b"data:two", b"data: three", b"", b""])
    assert decoded(stream) == [b"one", b"two\nthree"]
    assert decoded(*(stream[n : n + 1] for n in range(len(stream)))) == [b"one", b"two\nthree"]


def test_a_byte_order_mark_is_skipped() -> None:
    assert decoded(b"\xef", b"\xbb\xbfda", b"ta: x\n\n") == [b"x"]


def test_a_stream_that_ends_without_its_empty_line_still_gives_its_last_event() -> None:
    assert decoded(b"data: x\n") == [b"x"]


def test_a_line_that_was_cut_short_gives_nothing() -> None:
    assert decoded(b'data: x\n\ndata: {"half"') == [b"x"]


@pytest.mark.parametrize(
    "chunks",
    [
        [b"data: " + b"x" * 200],
        [b"x" * 60] * 4,
        [b"data: " + b"x" * 40 + b"\n"] * 5,
        [b"data:\n"] * 200,
        [b"data: x\n\n" + b"y" * 200 + b"\n\n"],
        [b"event: " + b"x" * 40 + b"\n", b"id: " + b"x" * 40 + b"\n", b"data: " + b"x" * 20],
    ],
    ids=["one line", "a line in pieces", "many lines", "empty lines", "behind an event", "type and id"],
)
def test_an_event_without_end_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(EventTooLong, match="longer than 100 bytes"):
        decoded(*chunks, limit=100)


def test_empty_lines_of_an_event_count_towards_its_limit() -> None:
    """Sixteen million empty lines would be as many objects."""
    decoder = SseDecoder(LIMIT)
    for _ in range(10):
        decoder.feed(b"data:\n" * 1024)
    with pytest.raises(EventTooLong):
        decoder.feed(b"data:\n" * 8 * 1024)


def test_an_event_that_ends_makes_room_for_the_next() -> None:
    decoder = SseDecoder(limit=400)
    for _ in range(10):
        assert decoder.feed(b"data: a\ndata: b\n") == []
        assert decoder.feed(b"data: c\n\n") == [SseEvent(b"a\nb\nc")]


def test_many_short_events_in_one_chunk_are_not_too_long() -> None:
    assert decoded(b"data: x\n\n" * 100, limit=100) == [b"x"] * 100
    assert decoded(*[b": ping\n"] * 100, limit=100) == []
