"""Listening: what happens from now on, and after a lag the state that counts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import ReasoningPart, TextPart
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PromptAnswered,
    SessionCreated,
    SessionIdle,
    SessionStatus,
)
from asyncagents.llm.scripted import call, say, think
from asyncagents.testing.inside import inside
from tests.support.runtime import open_stage
from tests.support.tool import ECHO, Gate
from tests.support.wait import PATIENCE

FLOOD = {"go": [[think("Hm."), say(*["x"] * 3000), call("gate")], [say("y" * 10, "z" * 10)]]}


class Client:
    """Keeps what it hears of one session, as a client does."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events
        self._parts: dict[str, object] = {}
        self._messages: dict[str, object] = {}
        self.status: object = None
        self.heard = 0

    async def hear(self) -> Event:
        event = await anext(self._events)
        self.heard += 1
        match event:
            case PartUpdated(part=part):
                self._parts[part.id or ""] = part
            case PartDelta(part_id=part_id, delta=delta, offset=offset):
                grown = self._parts.get(part_id)
                if isinstance(grown, TextPart | ReasoningPart) and len(grown.text) == offset:
                    self._parts[part_id] = replace(grown, text=grown.text + delta)
            case MessageUpdated(info=info):
                self._messages[info.id] = info
            case SessionStatus(status=status):
                self.status = status
            case _:
                pass
        return event

    async def hear_until(self, kind: type[Event]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not isinstance(await self.hear(), kind):
                pass

    def agrees_with(self, entries: tuple[MessageWithParts, ...]) -> bool:
        messages = {entry.info.id: entry.info for entry in entries}
        parts = {part.id: part for entry in entries for part in entry.parts}
        return (self._messages, self._parts) == (messages, parts)


@pytest.mark.spec("C-02", "C-06")
async def test_a_listener_that_keeps_up_matches_the_store(tmp_path: Path) -> None:
    script = {"go": [[think("Hm."), say("a", "b"), call("echo", text="c")], [say("d ", "e ")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        async with at.runtime.events(at.session_id) as events:
            client = Client(events)
            await at.prompt("go")
            await client.hear_until(SessionIdle)
        assert client.agrees_with(await at.messages())

    assert client.status == Idle()


@pytest.mark.spec("C-02", "C-06")
async def test_a_listener_that_fell_behind_catches_up_with_the_final_state(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_stage(tmp_path, FLOOD, tools=[gate.tool]) as at:
        async with at.runtime.events(at.session_id) as events:
            client = Client(events)
            prompt = asyncio.ensure_future(at.prompt("go"))
            await gate.until_started()
            gate.go.set()
            await prompt
            await client.hear_until(SessionIdle)
        assert client.agrees_with(await at.messages())

    assert client.status == Idle()
    assert client.heard < 3000


async def test_a_listener_that_lagged_gets_further_events(tmp_path: Path) -> None:
    gate = Gate("gate")
    gate.go.set()
    async with open_stage(tmp_path, FLOOD, tools=[gate.tool]) as at:
        async with at.runtime.events(at.session_id) as events:
            client = Client(events)
            await at.prompt("go")
            await client.hear_until(SessionIdle)
            await at.prompt("and on")
            await client.hear_until(SessionIdle)
        assert client.agrees_with(await at.messages())


async def test_a_listener_to_all_sessions_gets_events_of_new_ones(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at, at.runtime.events() as events:
        client = Client(events)
        await at.prompt("hello")
        created = await at.runtime.create_session(directory=tmp_path)
        await client.hear_until(SessionCreated)
        await at.runtime.prompt(created.id, "hello")
        await client.hear_until(SessionIdle)


async def test_a_listener_that_leaves_costs_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        before = dict(inside(at.runtime).bus._listeners)
        async with at.runtime.events(at.session_id) as events:
            await at.prompt("hello")
            await anext(events)
        assert inside(at.runtime).bus._listeners == before


@pytest.mark.spec("X-07")
async def test_a_prompt_can_be_followed_until_it_is_answered(tmp_path: Path) -> None:
    script = {"go": [[say("a", "b"), call("echo", text="c")], [say("d")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:
        heard = [event async for event in at.runtime.stream(at.session_id, "go", key="k")]
        again = [event async for event in at.runtime.stream(at.session_id, "go", key="k")]

    assert [event.delta for event in heard if isinstance(event, PartDelta)] == ["a", "b", "d"]
    assert isinstance(heard[-1], PromptAnswered)
    assert again == [], "the key was used before, and its prompt is answered"


@pytest.mark.spec("X-07", "C-06")
async def test_one_can_wait_for_a_session_to_come_to_rest(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        await at.runtime.send(at.session_id, "hello")
        assert await at.runtime.wait(at.session_id) == Idle()
        assert await at.runtime.wait(at.session_id) == Idle()
