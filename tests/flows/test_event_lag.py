"""Listeners of everything that do not keep up: what they missed they are told as it is now."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents.engine.event import global_stream as broadcast_room
from asyncagents.engine.event.global_stream import EventsLost, SessionLocation, StreamItem
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Closed
from asyncagents.llm.scripted import say
from asyncagents.testing.inside import inside
from tests.support.http.opencode import OpencodeMirror
from tests.support.model import HaltingModel
from tests.support.runtime import open_stage
from tests.support.wait import PATIENCE

WORDY = {"hi": [[say(*(f"word {number} " for number in range(40)))]]}

FEW = 1024
"""Frames that are kept for one: what happens here is more, again and again."""

Heard = AsyncGenerator[tuple[StreamItem, ...], None]


async def joined(stack: AsyncExitStack, runtime: Runtime, directory: str | None = None) -> Heard:
    runtime.broadcast.frames = FEW
    listening = runtime.broadcast.listen(directory, since=await runtime.cursor())
    heard = await stack.enter_async_context(aclosing(listening))
    assert await anext(heard) == ()
    return heard


async def until_idle(heard: Heard, screen: OpencodeMirror, *wanted: str) -> list[str]:
    """Until all of these are idle; returns the types of what was told."""
    types: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while {screen.statuses.get(each, {}).get("type") for each in wanted} != {"idle"}:
            for item in await anext(heard):
                event = msgspec.json.decode(item.body)
                types.append(event["type"])
                screen.apply(event)
    return types


async def until_over(heard: Heard, screen: OpencodeMirror) -> None:
    async with asyncio.timeout(PATIENCE):
        async for items in heard:
            for item in items:
                screen.apply(msgspec.json.decode(item.body))
                if item.event.type == "over":
                    return


async def some(heard: Heard, screen: OpencodeMirror, pieces: int) -> None:
    """Of what there is; with the last of it comes that a round is over."""
    async with asyncio.timeout(PATIENCE):
        async for items in heard:
            pieces -= 1
            for item in items:
                screen.apply(msgspec.json.decode(item.body))
            if pieces <= 0 or any(item.event.type == "round" for item in items):
                return


async def state(runtime: Runtime, *sessions: Any) -> dict[str, Any]:
    screen = OpencodeMirror()
    for session_id in sessions:
        info, entries = await runtime.session(session_id), await runtime.messages(session_id)
        screen.read(msgspec.to_builtins(info), [msgspec.to_builtins(entry) for entry in entries])
    return {"sessions": screen.sessions, "messages": screen.messages, "parts": screen.parts}


def known(screen: OpencodeMirror) -> dict[str, Any]:
    return {"sessions": screen.sessions, "messages": screen.messages, "parts": screen.parts}


@pytest.mark.spec("X-01")
async def test_a_listener_that_lags_gets_the_current_state_later(tmp_path: Path) -> None:
    screen = OpencodeMirror()
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        heard = await joined(stack, at.runtime)
        new = [(await at.runtime.create_session(directory=tmp_path)).id for _ in range(30)]
        for session_id in new:
            await at.runtime.prompt(session_id, "hi")
        types = await until_idle(heard, screen, *new)
        wanted = await state(at.runtime, *new)

    assert known(screen) == wanted
    assert "message.part.delta" not in types, "that would be more than is kept for one"
    assert types.index("session.created") == 0


@pytest.mark.spec("X-01")
async def test_a_listener_that_lags_again_while_catching_up_misses_nothing(tmp_path: Path) -> None:
    screen = OpencodeMirror()
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        heard = await joined(stack, at.runtime)
        new = [(await at.runtime.create_session(directory=tmp_path)).id for _ in range(30)]
        for each in new:
            await at.runtime.prompt(each, "hi")
        await some(heard, screen, 2)
        for each in new:
            await at.runtime.prompt(each, "hi")
        at.runtime.broadcast.announce("over", {})
        await until_over(heard, screen)
        wanted = await state(at.runtime, *new)

    assert known(screen) == wanted


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("behind", [False, True])
async def test_a_listener_gets_the_removal_of_messages_and_parts(tmp_path: Path, behind: bool) -> None:
    screen = OpencodeMirror()
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        session_id = (await at.runtime.create_session(directory=tmp_path)).id
        for _ in range(2):
            await at.runtime.prompt(session_id, "hi")
        heard = await joined(stack, at.runtime, str(tmp_path))
        first, answer, *_ = await at.runtime.messages(session_id)
        info = msgspec.to_builtins(await at.runtime.session(session_id))
        screen.read(info, [msgspec.to_builtins(each) for each in await at.runtime.messages(session_id)])
        for _ in range(30 if behind else 1):
            await at.runtime.prompt(session_id, "hi")
        await at.runtime.conversations.remove_message(session_id, first.info.id)
        part_id = answer.parts[0].id
        assert part_id is not None
        await at.runtime.conversations.remove_part(session_id, answer.info.id, part_id)
        at.runtime.broadcast.announce("over", {})
        await until_over(heard, screen)
        wanted = await state(at.runtime, session_id)

    assert first.info.id not in screen.messages
    assert known(screen) == wanted


@pytest.mark.spec("X-01")
async def test_listeners_that_read_irregularly_reach_the_final_state(tmp_path: Path) -> None:
    """Several at once, each at its own pace; some in another directory."""
    rng, screens = random.Random(9), [OpencodeMirror() for _ in range(4)]
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        here = str(tmp_path / "a")
        hearers = [await joined(stack, at.runtime, here if number % 2 else None) for number in range(4)]
        elsewhere = (await at.runtime.create_session(directory=tmp_path / "b")).id
        ours = [(await at.runtime.create_session(directory=here)).id for _ in range(6)]
        for _ in range(8):
            await asyncio.gather(*(at.runtime.prompt(each, "hi") for each in [*ours, elsewhere]))
            at.runtime.broadcast.announce("round", {})
            slow = rng.randrange(4)
            await some(hearers[slow], screens[slow], rng.choice([1, 2, 5]))
        at.runtime.broadcast.announce("over", {})
        for heard, screen in zip(hearers, screens, strict=True):
            await until_over(heard, screen)
        wanted, everywhere = await state(at.runtime, *ours), await state(at.runtime, *ours, elsewhere)

    assert [known(screen) for screen in screens] == [everywhere, wanted, everywhere, wanted]


@pytest.mark.spec("X-01")
async def test_a_lagging_listener_gets_announcements_that_are_not_stored(tmp_path: Path) -> None:
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        heard, screen = await joined(stack, at.runtime), OpencodeMirror()
        at.runtime.broadcast.announce("installation.updated", {"version": "1"})
        new = [(await at.runtime.create_session(directory=tmp_path)).id for _ in range(30)]
        for session_id in new:
            await at.runtime.prompt(session_id, "hi")
        at.runtime.broadcast.announce(
            "installation.updated", {"version": "2"}, location=SessionLocation(str(tmp_path), "")
        )
        types = await until_idle(heard, screen, *new)
        while types.count("installation.updated") < 2:
            types += [item.event.type for item in await anext(heard)]

    assert types.count("installation.updated") == 2


@pytest.mark.spec("X-01")
async def test_a_listener_that_misses_too_many_announcements_raises_events_lost(tmp_path: Path) -> None:
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        heard = await joined(stack, at.runtime)
        await anext(heard)
        for number in range(2_100):
            at.runtime.broadcast.announce("installation.updated", {"version": str(number)})
        with pytest.raises(EventsLost):
            await until_over(heard, OpencodeMirror())


@pytest.mark.spec("X-01")
async def test_a_listener_that_lags_during_a_streamed_text_gets_all_of_it(tmp_path: Path) -> None:
    """As clients put it together that do not look at offsets."""
    model = HaltingModel({"go": [[say("One ", *["and "] * 1_200, "two ", "three.")]]}, "two ")
    async with open_stage(tmp_path, model) as at, AsyncExitStack() as stack:
        heard, screen = await joined(stack, at.runtime), OpencodeMirror()
        await at.runtime.send(at.session_id, "go")
        await model.halts.wait()
        await _text(heard, screen, "One " + "and " * 1_200 + "two ")
        model.go.set()
        await _text(heard, screen, "One " + "and " * 1_200 + "two three.")
        await until_idle(heard, screen, at.session_id)


async def _text(heard: Heard, screen: OpencodeMirror, wanted: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while wanted not in {part.get("text") for part in screen.parts.values()}:
            for item in await anext(heard):
                screen.apply(msgspec.json.decode(item.body))


@pytest.mark.spec("X-01")
async def test_the_broadcast_subscribes_to_the_bus_only_while_it_has_listeners(tmp_path: Path) -> None:
    async with open_stage(tmp_path, WORDY) as at:
        before = len(inside(at.runtime).bus._listeners[None])
        async with AsyncExitStack() as stack:
            await joined(stack, at.runtime)
            await joined(stack, at.runtime, str(tmp_path))
            during = len(inside(at.runtime).bus._listeners[None])
        after = len(inside(at.runtime).bus._listeners[None])

    assert before == 1
    assert during == 2
    assert after == 1
    assert at.runtime.broadcast.directories == set()


@pytest.mark.spec("X-01")
async def test_a_listener_raises_closed_when_the_runtime_closes(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with open_stage(tmp_path, WORDY) as at:
            heard = await joined(stack, at.runtime)
            await anext(heard)
        with pytest.raises(Closed):
            await until_over(heard, OpencodeMirror())


@pytest.mark.spec("X-01")
async def test_events_reach_their_directory_when_the_location_cache_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session works is looked up once, and may be forgotten."""
    monkeypatch.setattr(broadcast_room, "MAX_LOCATIONS", 2)
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        here, there = str(tmp_path / "a"), str(tmp_path / "b")
        ours = [(await at.runtime.create_session(directory=here)).id for _ in range(4)]
        theirs = [(await at.runtime.create_session(directory=there)).id for _ in range(4)]
        heard, screen = await joined(stack, at.runtime, here), OpencodeMirror()
        for mine, other in zip(ours, theirs, strict=True):
            await at.runtime.prompt(other, "hi")
            await at.runtime.prompt(mine, "hi")
        await until_idle(heard, screen, *ours)

    assert screen.sessions.keys() == set(ours)
    assert {part["sessionID"] for part in screen.parts.values()} == set(ours)


@pytest.mark.spec("X-01")
async def test_a_session_deleted_before_it_is_read_does_not_disturb_listeners(tmp_path: Path) -> None:
    async with open_stage(tmp_path, WORDY) as at, AsyncExitStack() as stack:
        old = (await at.runtime.create_session(directory=tmp_path)).id
        heard, screen = await joined(stack, at.runtime, str(tmp_path)), OpencodeMirror()
        await at.runtime.send(old, "note", wakes=False)
        await at.runtime.delete_session(old)
        new = (await at.runtime.create_session(directory=tmp_path)).id
        await at.runtime.prompt(new, "hi")
        types = await until_idle(heard, screen, new)

    assert "session.deleted" in types
    assert screen.sessions.keys() == {new}
