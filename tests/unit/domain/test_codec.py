"""Bytes to nouns: nothing is lost, and what cannot be read says so in one way."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncagents.domain.conversation.codec import (
    SHAPE_VERSION,
    UnknownPart,
    Unreadable,
    decode_message,
    decode_part,
    decode_session,
    decode_status,
    overlay,
    upcast,
)
from asyncagents.domain.conversation.failure import APIError, KnownFailure, UnknownFailure, aborted_error
from asyncagents.domain.conversation.message import AssistantMessage, Message
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.event import parse_frame
from asyncagents.domain.shape import encode
from tests.support.domain.recorded_body import CONVERSATIONS, read_body
from tests.support.domain.strategy import json_values, nouns

ASSISTANT = next(e["info"] for e in CONVERSATIONS if e["info"]["role"] == "assistant")
READERS: list[Callable[[bytes], object]] = [
    decode_session,
    decode_message,
    decode_part,
    decode_status,
    parse_frame,
    lambda raw: overlay(raw, Idle()),
]
VALID = [
    *map(encode, read_body("sessions")[:2]),
    *map(encode, read_body("parts")),
    *map(encode, read_body("statuses")),
    *map(encode, read_body("events").values()),
    encode(ASSISTANT),
]


@pytest.mark.spec("S-04")
@given(nouns(Part))
def test_a_part_survives_its_bytes(part: Part) -> None:
    assert decode_part(encode(part)) == part


@pytest.mark.spec("S-03")
@given(nouns(Message))
def test_a_message_survives_its_bytes(message: Message) -> None:
    assert decode_message(encode(message)) == message


@given(nouns(Status))
def test_a_status_survives_its_bytes(status: Status) -> None:
    assert decode_status(encode(status)) == status


@given(nouns(KnownFailure))
def test_an_encoded_failure_has_the_name_of_its_class(failure: KnownFailure) -> None:
    assert json.loads(encode(failure))["name"] == type(failure).__name__


def test_a_failure_of_an_unknown_name_is_kept() -> None:
    error = {"name": "Gremlin", "data": {"wet": True}, "at": [1]}
    message = decode_message(encode(ASSISTANT | {"error": error}))
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.error, UnknownFailure)
    assert message.error.name == "Gremlin"
    assert json.loads(encode(message))["error"] == error


def test_a_known_failure_with_wrong_data_is_unreadable() -> None:
    with pytest.raises(Unreadable, match=ASSISTANT["id"]):
        decode_message(encode(ASSISTANT | {"error": {"name": APIError.__name__, "data": {}}}))


def test_an_abort_reads_as_clients_expect() -> None:
    assert encode(aborted_error()) == b'{"name":"MessageAbortedError","data":{"message":"Aborted"}}'


@given(
    st.dictionaries(st.text(max_size=5), json_values, max_size=4),
    st.sampled_from([None, 1, "\t"]),
)
def test_a_part_of_an_unknown_type_keeps_its_bytes(fields: dict[str, Any], indent: Any) -> None:
    raw = json.dumps(fields | {"type": "poem", "id": "prt_1"}, indent=indent).encode()
    part = decode_part(raw)
    assert isinstance(part, UnknownPart)
    assert part.type == "poem"
    assert part.id == "prt_1"
    assert part.raw == raw
    assert encode(part) == raw


def test_a_tool_call_in_an_unknown_state_is_kept() -> None:
    tool = next(part for part in read_body("parts") if part["type"] == "tool")
    raw = encode(tool | {"state": {"status": "dreaming"}})
    part = decode_part(raw)
    assert isinstance(part, UnknownPart)
    assert part.type == "tool"
    assert part.session_id == tool["sessionID"]
    assert part.message_id == tool["messageID"]
    assert encode(part) == raw


def test_a_broken_part_of_a_known_type_is_unreadable_and_named() -> None:
    with pytest.raises(Unreadable, match=r"unreadable part prt_1: .*sessionID") as caught:
        decode_part(b'{"type":"text","id":"prt_1","text":"x"}')
    assert caught.value.kind == "part"
    assert caught.value.id == "prt_1"


@pytest.mark.parametrize("read", READERS)
def test_hostile_bytes_raise_no_error_but_unreadable(read: Callable[[bytes], object]) -> None:
    @given(st.binary() | json_values.map(encode) | mangled())
    @example(b"[" * 100_000)
    @example(b'{"a":' * 100_000)
    @example(b'{"type":"poem","x":' + b"[" * 100_000)
    @example(b'{"id":"evt_1","type":"poem","properties":' + b"[" * 100_000)
    @example(b'{"type":"poem","x":"\xff"}')
    @example(b'{"type":"text","id":"\\ud800"}')
    @example(b'{"type":"idle","x":' + b"9" * 5000 + b"}")
    @example(b'{"type":"poem","x":1e999}')
    def check(raw: bytes) -> None:
        with suppress(Unreadable):
            read(raw)

    check()


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """Valid bytes with a stretch replaced."""
    raw = draw(st.sampled_from(VALID))
    start = draw(st.integers(0, len(raw)))
    end = draw(st.integers(start, len(raw)))
    return raw[:start] + draw(st.binary(max_size=6)) + raw[end:]


def test_upcast_keeps_current_and_newer_versions_and_refuses_version_0() -> None:
    assert upcast(SHAPE_VERSION, b"{}") == b"{}"
    assert upcast(SHAPE_VERSION + 1, b"{}") == b"{}"
    with pytest.raises(Unreadable, match="version 0"):
        upcast(0, b"{}")
