"""What was recorded on the wire is read and written back as the same JSON."""

import json
from typing import Any

import msgspec
import pytest

from asyncagents.domain.call.ask import PermissionRequest
from asyncagents.domain.conversation.codec import (
    UnknownPart,
    decode_message,
    decode_part,
    decode_session,
    decode_status,
)
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.event import UnknownEvent, encode_event, parse_frame
from asyncagents.domain.shape import encode
from tests.support.domain.recorded_body import CONVERSATIONS, read_body


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.spec("S-01")
@pytest.mark.parametrize("body", read_body("sessions"), ids=lambda body: body["id"])
def test_a_recorded_session_round_trips(body: Any) -> None:
    assert json.loads(encode(decode_session(raw(body)))) == body


@pytest.mark.spec("S-03", "S-04")
@pytest.mark.parametrize("body", CONVERSATIONS, ids=lambda body: body["info"]["id"])
def test_a_recorded_message_and_its_parts_round_trip(body: Any) -> None:
    assert json.loads(encode(decode_message(raw(body["info"])))) == body["info"]
    parts = [decode_part(raw(part)) for part in body["parts"]]
    assert json.loads(encode(parts)) == body["parts"]
    for part in parts:
        assert not isinstance(part, UnknownPart)
        assert part.message_id == body["info"]["id"]
        assert part.session_id == body["info"]["sessionID"]


@pytest.mark.spec("S-04")
@pytest.mark.parametrize("body", read_body("parts"), ids=lambda body: body["type"])
def test_every_part_with_all_its_fields_round_trips(body: Any) -> None:
    part = decode_part(raw(body))
    assert not isinstance(part, UnknownPart)
    assert json.loads(encode(part)) == body


@pytest.mark.spec("S-04")
def test_every_part_type_is_among_the_examples() -> None:
    types = {kind.__struct_config__.tag for kind in Part.__args__}
    shown = {body["type"] for body in read_body("parts")} | {
        part["type"] for entry in CONVERSATIONS for part in entry["parts"]
    }
    assert types <= shown


@pytest.mark.parametrize("body", read_body("statuses"), ids=lambda body: body["type"])
def test_a_status_round_trips(body: Any) -> None:
    assert json.loads(encode(decode_status(raw(body)))) == body


@pytest.mark.parametrize("body", read_body("permissions"))
def test_a_permission_request_round_trips(body: Any) -> None:
    assert json.loads(encode(msgspec.json.decode(raw(body), type=PermissionRequest))) == body


@pytest.mark.parametrize("body", read_body("events").values(), ids=lambda body: body["type"])
def test_an_event_round_trips(body: Any) -> None:
    event_id, event = parse_frame(raw(body))
    assert json.loads(encode_event(event_id, event)) == body
    assert event.session_id == body["properties"].get("sessionID")


def test_events_of_an_unknown_type_are_kept() -> None:
    _, event = parse_frame(raw(read_body("events")["server.connected"]))
    assert isinstance(event, UnknownEvent)
    assert event.type == "server.connected"


@pytest.mark.parametrize("body", CONVERSATIONS, ids=lambda body: body["info"]["id"])
def test_a_message_has_its_role_as_on_the_wire(body: Any) -> None:
    message = decode_message(raw(body["info"]))
    assert message.role == body["info"]["role"]
