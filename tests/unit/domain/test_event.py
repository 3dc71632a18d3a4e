"""Events: each survives its frame, and a streaming update names exactly one part."""

import json

import msgspec
import pytest
from hypothesis import given

from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.event import Event, PartDelta, PartUpdated, encode_event, parse_frame
from asyncagents.domain.id import EventId, MessageId, PartId, SessionId
from tests.support.domain.strategy import nouns

EVENT_ID = EventId("evt_1")
PLAIN = [kind for kind in Event.__args__ if kind is not PartUpdated]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.type)
def test_an_event_survives_its_frame(kind: type[Event]) -> None:
    @given(nouns(kind))
    def check(event: Event) -> None:
        assert parse_frame(encode_event(EVENT_ID, event)) == (EVENT_ID, event)

    check()


@pytest.mark.spec("S-03")
@given(nouns(Part))
def test_a_part_update_carries_the_whole_part(part: Part) -> None:
    event = PartUpdated(session_id=part.session_id, part=part, time=1)
    assert parse_frame(encode_event(EVENT_ID, event)) == (EVENT_ID, event)


@pytest.mark.spec("S-03")
def test_a_delta_names_one_part_and_where_its_text_goes() -> None:
    delta = PartDelta(
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        part_id=PartId("prt_1"),
        field="text",
        delta="lo",
        offset=3,
    )
    assert json.loads(encode_event(EVENT_ID, delta))["properties"] == {
        "sessionID": "ses_1",
        "messageID": "msg_1",
        "partID": "prt_1",
        "field": "text",
        "delta": "lo",
        "offset": 3,
    }


def test_an_unknown_part_travels_in_an_event_as_it_came() -> None:
    raw = b'{"type":"poem", "id":"prt_1","verse":[1,2]}'
    event = PartUpdated(session_id=SessionId("ses_1"), part=decode_part(raw), time=1)
    assert raw in encode_event(EVENT_ID, event)
    assert parse_frame(encode_event(EVENT_ID, event)) == (EVENT_ID, event)


def test_every_event_type_is_unique() -> None:
    assert len({kind.type for kind in Event.__args__}) == len(Event.__args__)


def test_a_part_is_frozen() -> None:
    part = TextPart(id=PartId("p"), session_id=SessionId("s"), message_id=MessageId("m"), text="a")
    with pytest.raises(AttributeError):
        part.text = "b"  # type: ignore[misc]
    assert msgspec.structs.replace(part, text="b").text == "b"
