"""What goes into a row: JSON that can be read again wherever it is read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from asyncagents.domain.body import MAX_DEPTH, encode_body
from asyncagents.errors import InvalidInput
from tests.support.domain.strategy import json_values


def _nested(levels: int, core: Any = 0) -> Any:
    for _ in range(levels):
        core = [core]
    return core


@given(json_values)
def test_an_encoded_body_decodes_to_the_same_value(value: Any) -> None:
    assert msgspec.json.decode(encode_body(value)) == value


@given(json_values)
def test_brackets_in_texts_are_no_nesting(value: Any) -> None:
    text = encode_body(value).decode() + '"[{\\' * 200
    assert msgspec.json.decode(encode_body({"text": text, "deep": _nested(MAX_DEPTH - 1)}))["text"] == text


def test_a_body_deeper_than_the_limit_is_refused() -> None:
    assert encode_body(_nested(MAX_DEPTH))
    wide = [[n] for n in range(1_000)]
    assert encode_body(_nested(MAX_DEPTH - 2, wide))
    for value in (_nested(MAX_DEPTH + 1), _nested(MAX_DEPTH - 1, wide), _nested(900)):
        with pytest.raises(InvalidInput, match="levels deep"):
            encode_body(value)


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert encode_body([float("nan"), float("inf")]) == b"[null,null]"
