"""Frames of a stream, in whatever pieces they come."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.client import sse
from asyncagents.client.sse import Frame, FrameTooLong, read_frames

STREAM = (
    b"retry: 3000\n\n"
    b'id: e-0-1\nevent: cursor\ndata: {"cursor":"e-0-1"}\n\n'
    b": a comment\n\n"
    b"event: message.part.delta\ndata: {}\n\n"
    b"event: task.updated\nid:e-0-2\ndata:{}\n\n"
    b"data: unnamed\n\n"
    b"event: cut\ndata: {"
)
FRAMES = [
    Frame("cursor", b'{"cursor":"e-0-1"}', "e-0-1"),
    Frame("message.part.delta", b"{}"),
    Frame("task.updated", b"{}", "e-0-2"),
    Frame("message", b"unnamed"),
]


async def chunks(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
async def test_frames_are_the_same_however_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(places)]
    assert [frame async for frame in read_frames(chunks(pieces))] == FRAMES


async def test_a_frame_without_end_is_no_frame_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_BYTES", 1000)
    with pytest.raises(FrameTooLong, match="1000 bytes"):
        async for _ in read_frames(chunks([b"data: " + b"x" * 600] * 2)):
            pass
