"""Texts that grow in another process: every piece once and in order, or not at all."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.part import PartTime, TextPart
from asyncagents.domain.event import Event, PartDelta, PartUpdated
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.engine.event.bus import Bus, Subscription
from asyncagents.engine.event.relay import MAX_PAYLOAD_BYTES, Relay, RelayedDelta, encode_payloads
from tests.support.wait import PATIENCE

SESSION, MESSAGE, PART = SessionId("ses_1"), MessageId("msg_1"), PartId("prt_1")


class Wire:
    """Between two buses; what is said is kept until it is carried over."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._news = asyncio.Event()
        self.on_live: Callable[[str], None] = lambda payload: None
        self.has_remote_listeners = True

    def send_live(self, payload: str) -> None:
        assert len(payload.encode()) < 8_000
        self.said.append(payload)
        self._news.set()

    async def take(self) -> list[str]:
        """The payloads of the next batch."""
        async with asyncio.timeout(PATIENCE):
            await self._news.wait()
        self._news.clear()
        said, self.said = self.said, []
        return said


class Ears(Subscription):
    def __init__(self) -> None:
        super().__init__(0)
        self.heard: list[Event] = []

    def push(self, event: Event) -> None:
        self.heard.append(event)

    @property
    def text(self) -> str:
        """As a client has it."""
        text = ""
        for event in self.heard:
            if isinstance(event, PartUpdated) and isinstance(event.part, TextPart):
                text = event.part.text
            elif isinstance(event, PartDelta):
                assert event.offset == len(text)
                text += event.delta
        return text


def part(text: str, *, end: int | None = None) -> PartUpdated:
    time = PartTime(start=1, end=end)
    body = TextPart(id=PART, session_id=SESSION, message_id=MESSAGE, text=text, time=time)
    return PartUpdated(session_id=SESSION, part=body, time=1)


def delta(text: str, offset: int) -> PartDelta:
    return PartDelta(
        session_id=SESSION, message_id=MESSAGE, part_id=PART, field="text", delta=text, offset=offset
    )


class Pair:
    """Who writes, and who only listens."""

    def __init__(self) -> None:
        self.here, self.there = Bus(), Bus()
        self.wire, self.far = Wire(), Wire()
        self.here.attach_relay(Relay(self.here, self.wire))
        self.there.attach_relay(Relay(self.there, self.far))
        self.here.add_draft(SESSION, list)
        self.listener = Ears()

    async def carry(self) -> None:
        for payload in await self.wire.take():
            self.far.on_live(payload)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.mark.spec("X-10")
async def test_deltas_are_joined_and_published_to_a_remote_listener(pair: Pair) -> None:
    with pair.there.attach(pair.listener):
        pair.there.publish(part(""))
        for number in range(10):
            pair.here.publish(delta("abc", 3 * number))
        await pair.carry()
    assert pair.listener.text == "abc" * 10
    assert len(pair.listener.heard) == 2  # the part, and one piece


async def test_no_delta_is_sent_without_remote_listeners(pair: Pair) -> None:
    pair.wire.has_remote_listeners = False
    pair.here.publish(delta("abc", 0))
    pair.wire.has_remote_listeners = True
    pair.here.publish(delta("def", 3))
    assert await pair.wire.take() == encode_payloads([RelayedDelta(SESSION, MESSAGE, PART, "text", 3, "def")])


async def test_a_delta_that_arrives_before_its_part_waits_for_it(pair: Pair) -> None:
    with pair.there.attach(pair.listener):
        pair.here.publish(delta("early", 0))
        await pair.carry()
        assert pair.listener.heard == []
        pair.there.publish(part(""))
        await asyncio.sleep(0)
    assert pair.listener.text == "early"


async def test_after_a_lost_delta_no_text_is_published_until_the_row_has_it(pair: Pair) -> None:
    with pair.there.attach(pair.listener):
        pair.there.publish(part(""))
        pair.here.publish(delta("lost", 0))
        await pair.wire.take()
        pair.here.publish(delta(" and", 4))
        await pair.carry()
        assert pair.listener.text == ""
        pair.there.publish(part("lost and"))
        pair.here.publish(delta(" found", 8))
        await pair.carry()
    assert pair.listener.text == "lost and found"


async def test_text_that_the_row_brought_is_not_published_again(pair: Pair) -> None:
    with pair.there.attach(pair.listener):
        pair.there.publish(part("one t"))
        pair.here.publish(delta("one two", 0))
        await pair.carry()
    assert pair.listener.text == "one two"


async def test_a_listener_that_joins_midway_gets_the_text_so_far(pair: Pair) -> None:
    pair.there.publish(part("so "))
    pair.here.publish(delta("far", 3))
    await pair.carry()
    (event,) = pair.there.streaming_events(lambda session_id: True)
    assert isinstance(event, PartUpdated)
    assert isinstance(event.part, TextPart)
    assert event.part.text == "so far"
    pair.there.publish(part("so far.", end=2))
    assert pair.there.streaming_events(lambda session_id: True) == []


async def test_deltas_of_other_processes_are_not_relayed_again(pair: Pair) -> None:
    own = SessionId("ses_2")
    pair.there.add_draft(own, list)
    pair.there.publish(part(""))
    pair.here.publish(delta("abc", 0))
    await pair.carry()
    pair.there.publish(replace(delta("def", 0), session_id=own))
    assert await pair.far.take() == encode_payloads([RelayedDelta(own, MESSAGE, PART, "text", 0, "def")])


@pytest.mark.parametrize(
    "text", ["x" * 30_000, "é" * 9_000, '"' * 9_000, "\U0001f600" * 5_000, "\x01" * 5_000]
)
def test_long_deltas_are_split_into_few_payloads_within_the_limit(text: str) -> None:
    pieces = [
        RelayedDelta(SESSION, MESSAGE, PART, "text", 0, text),
        RelayedDelta(SESSION, MESSAGE, PART, "text", 0, "y"),
    ]
    told = encode_payloads(pieces)
    assert max(len(each.encode()) for each in told) <= MAX_PAYLOAD_BYTES + 1_000
    assert len(told) < 30


async def test_a_row_older_than_the_pieces_does_not_take_text_back(pair: Pair) -> None:
    """The row is written with the first piece and read after the second one was published."""
    with pair.there.attach(pair.listener):
        pair.there.publish(part(""))
        pair.here.publish(delta("one ", 0))
        await pair.carry()
        pair.here.publish(delta("two ", 4))
        await pair.carry()
        pair.there.publish(part("one "))
        assert pair.listener.text == "one two "
        pair.here.publish(delta("three", 8))
        await pair.carry()
        assert pair.listener.text == "one two three"
        pair.there.publish(part("one", end=2))
    assert pair.listener.text == "one"
