"""The bus: events in order, for one session or all; who falls behind is cut off and nobody waits for it."""

from asyncagents.domain.event import Event, SessionError, SessionIdle
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.bus import Bus, Subscription

ONE, TWO = SessionId("ses_1"), SessionId("ses_2")


def idle(session_id: SessionId) -> SessionIdle:
    return SessionIdle(session_id=session_id)


async def until_cut_off(subscription: Subscription) -> list[Event]:
    return [event async for event in subscription]


async def heard(subscription: Subscription, count: int) -> list[Event]:
    events = aiter(subscription)
    return [await anext(events) for _ in range(count)]


async def test_a_listener_gets_only_events_of_its_session_in_order() -> None:
    bus = Bus()
    with bus.subscribe(ONE) as one, bus.subscribe(TWO) as two:
        events: list[Event] = [SessionError(session_id=ONE), idle(TWO), idle(ONE)]
        for event in events:
            bus.publish(event)
        assert await heard(one, 2) == [events[0], events[2]]
        assert await heard(two, 1) == [events[1]]


async def test_a_listener_to_all_sessions_gets_every_event_once() -> None:
    bus = Bus()
    with bus.subscribe() as everything:
        events: list[Event] = [idle(ONE), SessionError(), idle(TWO)]
        for event in events:
            bus.publish(event)
        bus.publish(idle(ONE))
        assert await heard(everything, 4) == [*events, idle(ONE)]


async def test_a_slow_listener_gets_the_events_that_fit_and_is_cut_off() -> None:
    bus = Bus(size=3)
    with bus.subscribe(ONE) as slow:
        for _ in range(10):
            bus.publish(idle(ONE))
        assert slow.lagging
        assert await until_cut_off(slow) == [idle(ONE)] * 3


async def test_a_listener_that_keeps_up_is_never_cut_off() -> None:
    bus = Bus(size=2)
    with bus.subscribe(ONE) as quick:
        events = aiter(quick)
        for _ in range(20):
            bus.publish(idle(ONE))
            bus.publish(idle(ONE))
            assert [await anext(events), await anext(events)] == [idle(ONE)] * 2
        assert not quick.lagging


async def test_a_slow_listener_does_not_make_the_others_lag() -> None:
    bus = Bus(size=2)
    with bus.subscribe(ONE) as slow, bus.subscribe(ONE) as quick:
        events = aiter(quick)
        for _ in range(5):
            bus.publish(idle(ONE))
            await anext(events)
        assert slow.lagging is True
        assert quick.lagging is False


async def test_a_closed_subscription_gets_no_further_events() -> None:
    bus = Bus()
    with bus.subscribe(ONE) as first:
        bus.publish(idle(ONE))
    bus.publish(SessionError(session_id=ONE))
    with bus.subscribe(ONE) as second:
        bus.publish(idle(ONE))
        assert await heard(second, 1) == [idle(ONE)]
    assert await heard(first, 1) == [idle(ONE)]
