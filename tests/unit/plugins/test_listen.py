"""A plugin hears events at its own pace; the bus never waits for it."""

import asyncio

from asyncagents.domain.event import Event, SessionIdle
from asyncagents.domain.id import SessionId
from asyncagents.engine.event.bus import Bus
from asyncagents.errors import NotFound
from asyncagents.plugins.event_listener import EventRing, PluginListener
from asyncagents.plugins.guarded_call import GuardedRunner
from asyncagents.plugins.hook_health import MOST_HANGS
from asyncagents.plugins.loaded_plugin import LoadedPlugin


def idle(number: int) -> SessionIdle:
    return SessionIdle(session_id=SessionId(f"ses_{number}"))


async def here(session_id: SessionId) -> str:
    if session_id == "ses_gone":
        raise NotFound("session", session_id)
    return "/elsewhere" if session_id == "ses_99" else "/here"


async def test_a_slow_plugin_loses_the_oldest_events_and_the_loss_is_reported() -> None:
    heard: list[str | None] = []
    first, go = asyncio.Event(), asyncio.Event()

    async def hook(event: Event) -> None:
        heard.append(event.session_id)
        first.set()
        await go.wait()

    plugin = LoadedPlugin(name="slow", origin="test", scope="user", runner=GuardedRunner(), seconds=60)
    plugin.set_hooks({"event": hook}, ())
    bus, ring = Bus(), EventRing(3)
    async with asyncio.TaskGroup() as group:
        group.create_task(PluginListener(plugin, "/here", here).listen(bus, ring))
        await asyncio.sleep(0)
        bus.publish(idle(0))
        await first.wait()
        for number in range(1, 10):
            bus.publish(idle(number))
        go.set()
        bus.close()
    (health,) = plugin.report().hooks
    assert heard == ["ses_0", "ses_7", "ses_8", "ses_9"]
    assert health.calls == 4
    assert health.failures == 1
    assert health.last == "is too slow: it missed 6 events"


async def test_events_of_other_directories_or_unknown_sessions_are_not_sent() -> None:
    heard: list[str | None] = []
    plugin = LoadedPlugin(name="p", origin="test", scope="user", runner=GuardedRunner(), seconds=60)
    plugin.set_hooks({"event": lambda event: heard.append(event.session_id)}, ())
    bus = Bus()
    async with asyncio.TaskGroup() as group:
        group.create_task(PluginListener(plugin, "/here", here).listen(bus))
        await asyncio.sleep(0)
        bus.publish(idle(99))
        bus.publish(SessionIdle(session_id=SessionId("ses_gone")))
        bus.publish(idle(1))
        bus.close()
    assert heard == ["ses_1"]


async def test_a_plugin_that_keeps_hanging_gets_no_more_events() -> None:
    calls = 0

    async def hook(event: Event) -> None:
        nonlocal calls
        calls += 1
        await asyncio.Event().wait()

    plugin = LoadedPlugin(name="p", origin="test", scope="user", runner=GuardedRunner(), seconds=0.01)
    plugin.set_hooks({"event": hook}, ())
    bus = Bus()
    async with asyncio.TaskGroup() as group:
        group.create_task(PluginListener(plugin, "/here", here).listen(bus))
        await asyncio.sleep(0)
        for number in range(10):
            bus.publish(idle(number))
    assert calls == MOST_HANGS
