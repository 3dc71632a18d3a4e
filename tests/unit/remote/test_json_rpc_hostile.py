"""Lines that are no frames: each is an error or nothing, and the connection goes on."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from asyncagents.remote.json_rpc import (
    INVALID_REQUEST,
    MAX_OPEN_REQUESTS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    LineReader,
    LineTooLong,
    no_such_method,
)
from tests.support.acp.wire import (
    Frame,
    OtherSide,
    PlainHandler,
    answer,
    call,
    notification,
    open_wire,
    outcome,
)

LAST = "the last request"
SHORT = 200
WRONG_IDS: list[Any] = [None, True, 1.5, [], {}, [1]]
WRONG_METHODS: list[Any] = [7, True, [], {}]


async def frames_for(line: bytes, handler: PlainHandler | None = None) -> list[Frame]:
    """What a line is answered with, before the answer of a request that follows it."""
    async with open_wire(handler or PlainHandler()) as (_, other):
        other.send_bytes(line + b"\n")
        return await read_to_the_last(other)


async def read_to_the_last(other: OtherSide) -> list[Frame]:
    other.send(call(LAST, "echo"))
    found: list[Frame] = []
    while (frame := await other.next_frame()) != answer(LAST):
        found.append(frame)
    return found


def codes(frames: list[Frame]) -> list[tuple[Any, int]]:
    return [(each["id"], each["error"]["code"]) for each in frames]


@pytest.mark.parametrize(
    "line",
    [
        *(b"{", b"nonsense", b'{"id":1,"method":"echo"', b"{} {}", b"'{}'", b"{]}", b"\xef\xbb\xbf{}"),
        *(b"\x00", b'{"method":"a\x00"}', b'{"method":"\xff"}', b'{"params":["\xff"],"method":"x"}'),
        *(b"\xff\xfe{\x00}\x00", b"NaN", b'{"params":NaN}', b'{"method":"\\x"}', b"Content-Length: 20\r"),
        b'{"params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        *(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"unknown":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    ],
    ids=lambda line: repr(line[:30]),
)
async def test_a_line_that_is_not_json_is_a_parse_error(line: bytes) -> None:
    assert codes(await frames_for(line)) == [(None, PARSE_ERROR)]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 7, "text", [], [1], [{"jsonrpc": "2.0", "id": 1, "method": "echo"}], {}),
        *({"jsonrpc": "2.0"}, {"id": None}, {"id": 5}, {"params": {}}, {"id": 5, "params": []}),
        *({"id": each, "method": "echo"} for each in WRONG_IDS),
        *({"id": each, "result": 1} for each in WRONG_IDS if each is not None),
        *({"method": each} for each in WRONG_METHODS),
    ],
    ids=json.dumps,
)
async def test_json_that_is_no_frame_is_an_invalid_request(value: object) -> None:
    assert codes(await frames_for(json.dumps(value).encode())) == [(None, INVALID_REQUEST)]


@pytest.mark.parametrize("request_id", [0, -1, 2**70, "", "a", "\x00", "🙂", "x" * 10_000], ids=repr)
async def test_an_id_is_sent_back_as_it_came(request_id: int | str) -> None:
    assert await frames_for(json.dumps(call(request_id, "echo", 1)).encode()) == [answer(request_id, 1)]
    wrong = await frames_for(json.dumps({"id": request_id, "method": 7}).encode())
    assert codes(wrong) == [(request_id, INVALID_REQUEST)]


@pytest.mark.parametrize("line", [b"", b"  ", b"\r", b"\t\r"], ids=repr)
async def test_an_empty_line_is_nothing(line: bytes) -> None:
    assert await frames_for(line) == []


@pytest.mark.parametrize(
    "frame",
    [
        *(answer(1), answer("x"), answer(None), {"id": 1, "error": {"code": 1, "message": "x"}}),
        *({"error": "x"}, {"result": None}, notification("x"), notification(""), {"method": "x", "id": 1}),
        {"jsonrpc": "1.0", "method": "x", "params": 7, "more": {}},
    ],
    ids=json.dumps,
)
async def test_frames_that_nothing_waits_for_get_no_error_frame_of_the_connection(frame: Frame) -> None:
    found = await frames_for(json.dumps(frame).encode())
    assert codes(found) == ([(1, METHOD_NOT_FOUND)] if "id" in frame and "method" in frame else [])


async def test_a_batch_is_refused_in_a_sentence() -> None:
    [frame] = await frames_for(json.dumps([call(1, "echo"), call(2, "echo")]).encode())
    assert "batches are not supported" in frame["error"]["message"]


async def test_the_last_of_two_equal_keys_counts() -> None:
    assert await frames_for(b'{"id":1,"id":2,"method":"x","method":"echo","params":1}') == [answer(2, 1)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"half \ude42 an emoji \ud83d"', "half \ufffd an emoji \ufffd"),
        (rb'"\ud83d\ude42\ud83d\\ud83d\ude42"', "🙂\ufffd\\ud83d\ufffd"),
        (rb'"\ud83d\ud83d\ude42"', "\ufffd🙂"),
    ],
)
async def test_half_a_pair_of_surrogates_is_replaced(text: bytes, read: str) -> None:
    handler = PlainHandler()
    found = await frames_for(b'{"id":1,"method":"echo","params":' + text + b"}", handler)
    assert found[0]["id"] == 1
    assert found[0]["result"] == read


async def test_nul_in_a_text_is_kept() -> None:
    assert await frames_for(rb'{"id":"\u0000","method":"echo","params":"a\u0000b"}') == [
        answer("\x00", "a\x00b")
    ]


async def test_an_id_that_is_open_is_refused_for_another_request() -> None:
    handler = PlainHandler()
    async with open_wire(handler) as (_, other):
        other.send(call("a", "hold", 1), call("a", "echo", 2))
        other.send_bytes(b'{"id":"\\u0061","method":"echo"}\n')
        assert [await other.next_error() for _ in range(2)] == [("a", INVALID_REQUEST)] * 2
        handler.released.set()
        assert await other.next_frame() == answer("a", 1)
        assert await read_to_the_last(other) == []


async def test_requests_above_the_limit_are_refused_until_others_are_answered() -> None:
    handler = PlainHandler()
    async with open_wire(handler) as (_, other):
        other.send(*(call(number, "hold", number) for number in range(MAX_OPEN_REQUESTS + 2)))
        refused = [await other.next_error() for _ in range(2)]
        assert refused == [(MAX_OPEN_REQUESTS + each, INVALID_REQUEST) for each in range(2)]
        handler.released.set()
        for _ in range(MAX_OPEN_REQUESTS):
            assert "result" in await other.next_frame()
        assert await read_to_the_last(other) == []


@pytest.mark.parametrize("size", [SHORT + 1, 10 * SHORT, 500 * SHORT])
@pytest.mark.parametrize("piece", [7, SHORT, 100_000])
async def test_a_huge_line_is_skipped_and_the_next_one_works(size: int, piece: int) -> None:
    huge = json.dumps(call(1, "echo", "x" * size)).encode() + b"\n"
    async with open_wire(PlainHandler(), max_bytes=SHORT) as (_, other):
        for start in range(0, len(huge), piece):
            other.send_bytes(huge[start : start + piece])
        assert codes(await read_to_the_last(other)) == [(None, INVALID_REQUEST)]


async def test_a_line_without_an_end_is_no_frame() -> None:
    handler = PlainHandler()
    async with open_wire(handler) as (_, other):
        other.send(call(1, "echo"))
        other.send_bytes(json.dumps(call(2, "echo")).encode())
        other.close()
        assert await other.next_frame() == answer(1)
    assert other.frames_left() == []
    assert handler.events == ["request echo null"]


async def test_a_huge_line_without_an_end_is_not_kept() -> None:
    async with open_wire(PlainHandler(), max_bytes=SHORT) as (_, other):
        for _ in range(1000):
            other.send_bytes(b"x" * SHORT)
    assert other.frames_left() == []


class AnyHandler(PlainHandler):
    """Reads the parameters of every request, and answers them."""

    async def handle_request(self, method: str, params: Raw) -> object:
        value = msgspec.json.decode(params)
        if method == "unknown":
            raise no_such_method(method)
        return value


KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "requestId", "code", "x"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["echo", "unknown", "$/cancel_request", "2.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
FRAMES = st.dictionaries(KEYS, VALUES).map(lambda value: json.dumps(value).encode())


@st.composite
def damaged_frames(draw: st.DrawFn) -> bytes:
    """A frame with a few bytes replaced, left out or added."""
    line = bytearray(draw(FRAMES))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(line)))
        line[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(line)


@given(st.lists(st.binary() | FRAMES | damaged_frames() | VALUES.map(lambda v: json.dumps(v).encode())))
async def test_any_lines_are_answered_and_the_connection_goes_on(lines: list[bytes]) -> None:
    async with asyncio.TaskGroup() as group, open_wire(AnyHandler()) as (connection, other):
        group.create_task(outcome(connection.request("ask", {})))
        await other.next_frame()
        other.send_bytes(b"".join(line + b"\n" for line in lines) + b"\n")
        for frame in await read_to_the_last(other):
            assert ("result" in frame) != ("error" in frame)
            assert isinstance(frame["id"], int | str | None)


async def read_all(stream: bytes, cuts: list[int], limit: int) -> list[bytes | None]:
    """The lines of a stream that arrives in pieces; None for each that was skipped."""
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(places) if a < b]
    waiting = iter(pieces)

    async def read() -> bytes:
        return next(waiting, b"")

    reader, found = LineReader(read, limit), list[bytes | None]()
    while True:
        try:
            line = await reader()
        except LineTooLong:
            found.append(None)
        else:
            if line is None:
                return found
            found.append(line)


@given(
    st.lists(st.integers(0, 30).map(lambda size: b"x" * size)),
    st.binary(max_size=30),
    st.lists(st.integers()),
)
async def test_the_pieces_of_a_stream_do_not_change_its_lines(
    lines: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    limit = 20
    stream = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    wanted = [line if len(line) <= limit else None for line in lines]
    assert await read_all(stream, cuts, limit) == wanted
