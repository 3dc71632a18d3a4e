"""What anybody may send costs no more than its bytes, until it is known who sent it."""

import tracemalloc

import pytest

from asyncagents.domain.call.incoming_result import MOST_BYTES, read_pending_id
from asyncagents.errors import InvalidInput


@pytest.mark.spec("P-06")
@pytest.mark.parametrize("piece", [b"[]", b"{}", b'"x"', b"0.5"])
def test_a_pending_id_that_is_no_text_is_refused_with_little_memory(piece: bytes) -> None:
    body = b'{"pendingID":[' + b",".join([piece] * (MOST_BYTES // 10)) + b"]}"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            read_pending_id(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_pending_id_may_be_written_with_escapes() -> None:
    text = "".join(f"\\u{ord(letter):04x}" for letter in "tool_" + "x" * 195)
    assert read_pending_id(f'{{"pendingID": "{text}"}}'.encode()) == "tool_" + "x" * 195
