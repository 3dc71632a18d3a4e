"""How much a model can read, and how much of it a conversation takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed, Settled, render
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import FilePart, TextPart
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import PartId
from asyncagents.domain.window import (
    IMAGE_TOKENS,
    Window,
    estimate_part,
    estimate_text,
    estimate_tokens,
    tokens_used,
)
from tests.support.domain.state import SESSION, call, user


@pytest.mark.spec("S-09")
@pytest.mark.parametrize(
    ("window", "reserved", "room"),
    [
        pytest.param(
            Window(context=200_000, output=64_000), None, 168_000, id="at most 32,000 for the answer"
        ),
        pytest.param(Window(context=128_000, output=8_000), None, 120_000, id="what the model may write"),
        pytest.param(Window(context=16_000), None, 12_000, id="a quarter if nobody knows"),
        pytest.param(Window(context=200_000, output=64_000), 5_000, 195_000, id="what the operator says"),
        pytest.param(Window(context=8_000, output=32_000), None, 4_000, id="an output as long as all of it"),
        pytest.param(Window(context=8_000, output=2_000), 9_000, 4_000, id="more reserved than there is"),
        pytest.param(Window(context=400_000, input=272_000, output=128_000), None, 272_000, id="input"),
        pytest.param(Window(), None, None, id="nobody knows"),
        pytest.param(Window(output=5_000), 100, None, id="nobody knows the context"),
    ],
)
def test_the_room_is_the_window_without_the_space_of_the_next_answer(
    window: Window, reserved: int | None, room: int | None
) -> None:
    assert window.room(reserved) == room


@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_room_is_between_half_of_the_window_and_all_of_it(
    context: int, output: int, reserved: int
) -> None:
    for window in (Window(context=context, output=output), Window(context=context)):
        for kept in (None, reserved):
            room = window.room(kept)
            assert room is not None
            assert context // 2 <= room <= context


@pytest.mark.spec("S-09")
def test_cached_tokens_count_like_other_tokens() -> None:
    tokens = Tokens(input=1, output=20, reasoning=4_000, cache=CacheTokens(read=300, write=50_000))
    assert tokens_used(tokens) == 50_321


def text(words: str, **more: Any) -> TextPart:
    return TextPart(id=PartId("prt_1"), session_id=SESSION, message_id=user().id, text=words, **more)


def test_words_take_a_token_for_four_bytes() -> None:
    assert estimate_text("four" * 100) == 100
    assert estimate_text("世界" * 100) == 150
    assert estimate_part(text("x" * 400, ignored=True)) == 0


def test_an_image_has_a_fixed_estimate_and_a_text_file_one_by_its_length() -> None:
    def file(mime: str, size: int) -> FilePart:
        url = f"data:{mime};base64,{'A' * size}"
        return FilePart(id=PartId("prt_1"), session_id=SESSION, message_id=user().id, mime=mime, url=url)

    assert estimate_part(file("image/png", 4_000_000)) == IMAGE_TOKENS
    assert 700 < estimate_part(file("text/plain", 4_000)) < 800


@pytest.mark.spec("S-11")
def test_output_that_is_left_out_weighs_nothing() -> None:
    done = call(Settled(Completed("x" * 40_000), 9))
    left_out = call(Settled(Completed("x" * 40_000), 9), compacted=10)
    heavy = estimate_tokens((MessageWithParts(info=user(), parts=(render(done),)),))
    light = estimate_tokens((MessageWithParts(info=user(), parts=(render(left_out),)),))
    assert heavy - light == 10_000
    assert light < 50
