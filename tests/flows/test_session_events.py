"""Events of a session over HTTP: cursors are true, a reader goes on from any of them, texts are whole."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import PartDelta, PartUpdated, PromptAnswered
from asyncagents.engine.event.session_stream import EventBatch
from asyncagents.llm.model import ChatRequest, ModelEvent, TextDelta
from asyncagents.llm.scripted import Script, ScriptedModel, say
from asyncagents.testing.inside import inside
from tests.support.http.client import Frame
from tests.support.http.opencode import HELLO, text_prompt
from tests.support.http.server import StageClient, serve_stage
from tests.support.runtime import open_runtime, open_stage
from tests.support.wait import PATIENCE, wait_until


async def until(frames: AsyncIterator[Frame], kind: str) -> list[Frame]:
    """All up to the next of this kind."""
    seen: list[Frame] = []
    async with asyncio.timeout(PATIENCE):
        while not seen or seen[-1].type != kind:
            seen.append(await anext(frames))
    return seen


def texts(frames: list[Frame]) -> dict[str, str]:
    """The text of each part, as a client puts it together."""
    known: dict[str, str] = {}
    for frame in frames:
        data: dict[str, Any] = frame.data
        if frame.type == "message.part.updated" and "text" in data["part"]:
            known[data["part"]["id"]] = data["part"]["text"]
        if frame.type == "message.part.delta" and data["offset"] == len(known.get(data["partID"], "")):
            known[data["partID"]] = known.get(data["partID"], "") + data["delta"]
    return known


async def test_events_of_a_turn_are_streamed_live_after_a_first_cursor(tmp_path: Path) -> None:
    async with (
        serve_stage(tmp_path, HELLO) as at,
        at.stream(f"/v1/sessions/{at.stage.session_id}/events") as frames,
    ):
        first = await anext(frames)
        await at.post(f"/session/{at.stage.session_id}/prompt_async", text_prompt("hi"))
        seen = await until(frames, "prompt.answered")

    assert first.type == "cursor"
    assert first.data == {"cursor": first.id}
    assert "message.part.delta" in {frame.type for frame in seen}
    assert "Hello." in texts(seen).values()


async def test_a_reader_goes_on_from_any_cursor_and_misses_nothing(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        path = f"/v1/sessions/{at.stage.session_id}/events"
        async with at.stream(path) as frames:
            start = await anext(frames)
            await at.post(f"/session/{at.stage.session_id}/message", text_prompt("hi"))
            live = await until(frames, "prompt.answered")
        cursors = [start.id, *(frame.id for frame in live if frame.id)]
        endings = []
        for cursor in cursors:
            again = f"{path}?after={cursor}"
            async with at.stream(again) as frames:
                await at.post(
                    f"/session/{at.stage.session_id}/message", {**text_prompt("x"), "noReply": True}
                )
                seen = await until(frames, "message.updated")
                while "x" not in texts(seen).values():
                    seen += await until(frames, "message.part.updated")
                endings.append((seen[0].type, seen))
        entries = await at.stage.messages()

    assert {kind for kind, _ in endings} == {"cursor"}
    assert "Hello." in texts(endings[0][1]).values(), "from the start, all of it"
    assert "Hello." in texts(live).values()
    assert len(entries) == 2 + len(cursors)


class Halting(ScriptedModel):
    """Stops behind a word until it is let go."""

    def __init__(self, script: Script, word: str) -> None:
        super().__init__(script)
        self.go = asyncio.Event()
        self._word = word

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event
                if isinstance(event, TextDelta) and event.text == self._word:
                    await self.go.wait()


async def test_a_new_reader_gets_the_whole_of_a_text_that_is_streaming(tmp_path: Path) -> None:
    model = Halting({"go": [[say("One ", "two ", "three.")]]}, "two ")
    async with serve_stage(tmp_path, model) as at:
        await at.post(f"/session/{at.stage.session_id}/prompt_async", text_prompt("go"))
        await at.stage.listener.until_text("two ")
        async with at.stream(f"/v1/sessions/{at.stage.session_id}/events") as frames:
            early = [await anext(frames), await anext(frames)]
            model.go.set()
            late = await until(frames, "prompt.answered")

    assert [frame.type for frame in early] == ["cursor", "message.part.updated"]
    assert early[1].data["part"]["text"] == "One two "
    assert "message.part.delta" in {frame.type for frame in late}
    assert "One two three." in texts(early + late).values()


async def test_a_resuming_reader_gets_the_whole_of_a_text_that_is_streaming(tmp_path: Path) -> None:
    model = Halting({"go": [[say("One ", "two ", "three.")]]}, "two ")
    async with serve_stage(tmp_path, model) as at:
        path = f"/v1/sessions/{at.stage.session_id}/events"
        async with at.stream(path) as frames:
            start = await anext(frames)
        await at.post(f"/session/{at.stage.session_id}/prompt_async", text_prompt("go"))
        await at.stage.listener.until_text("two ")
        async with at.stream(f"{path}?after={start.id}") as frames:
            seen = [await anext(frames)]
            while "One two " not in texts(seen).values():
                seen.append(await anext(frames))
            model.go.set()
            seen += await until(frames, "prompt.answered")

    assert "One two three." in texts(seen).values()


async def test_a_cursor_of_another_store_is_reset_and_everything_follows(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        await at.post(f"/session/{at.stage.session_id}/message", text_prompt("hi"))
        async with at.stream(f"/v1/sessions/{at.stage.session_id}/events?after=000000000000-0-7") as frames:
            seen = await until(frames, "session.status")

    assert seen[0].type == "reset"
    assert set(texts(seen).values()) >= {"hi", "Hello."}
    assert seen[-1].id or seen[-1].type == "session.status"


async def test_a_stream_of_a_tree_has_events_of_its_sessions_and_no_others(tmp_path: Path) -> None:
    async with serve_stage(tmp_path, HELLO) as at:
        runtime, root_id = at.stage.runtime, at.stage.session_id
        other = await runtime.create_session(directory=tmp_path)
        old = await runtime.create_session(directory=tmp_path, parent_id=root_id)
        async with at.stream(f"/v1/sessions/{old.id}/events?tree=true") as frames:
            await anext(frames)
            await runtime.prompt(other.id, "hi")
            child = await runtime.create_session(directory=tmp_path, parent_id=old.id)
            await runtime.prompt(child.id, "hi")
            seen = await until(frames, "prompt.answered")
            await runtime.prompt(root_id, "again")
            seen += await until(frames, "prompt.answered")

    assert {frame.data["sessionID"] for frame in seen if "sessionID" in frame.data} == {child.id, root_id}


async def test_changes_by_another_process_are_streamed_too(tmp_path: Path) -> None:
    async with (
        serve_stage(tmp_path, HELLO) as at,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as other,
        at.stream(f"/v1/sessions/{at.stage.session_id}/events") as frames,
    ):
        start = await anext(frames)
        await other.send(at.stage.session_id, "note", wakes=False)
        seen = await until(frames, "message.part.updated")
        async with at.stream(f"/v1/sessions/{at.stage.session_id}/events?after={start.id}") as again:
            caught_up = await until(again, "message.part.updated")

    assert "note" in texts(seen).values()
    assert "note" in texts(caught_up).values()


async def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    async with (
        serve_stage(tmp_path, HELLO) as at,
        at.stream(f"/v1/sessions/{at.stage.session_id}/events") as frames,
    ):
        await anext(frames)
        await at.request("DELETE", f"/session/{at.stage.session_id}")
        rest = [frame async for frame in frames]

    assert "session.deleted" in {frame.type for frame in rest}


async def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def listen(at: StageClient) -> int:
        async with at.stream(f"/v1/sessions/{at.stage.session_id}/events") as frames:
            started.set()
            return len([frame async for frame in frames])

    async with asyncio.TaskGroup() as group, serve_stage(tmp_path, HELLO) as at:
        listening = group.create_task(listen(at))
        await started.wait()

    assert listening.result() >= 1


def written(piece: EventBatch) -> str:
    """The text of the last part, as a client puts it together."""
    known: dict[str, str] = {}
    for event in piece.events:
        if isinstance(event, PartUpdated) and isinstance(event.part, TextPart):
            known[event.part.id] = event.part.text
        if isinstance(event, PartDelta) and event.offset == len(known[event.part_id]):
            known[event.part_id] += event.delta
    return list(known.values())[-1]


async def test_a_slow_reader_gets_the_whole_of_a_text_that_just_began(tmp_path: Path) -> None:
    """Its first words are told with its row, a moment before whoever writes it learns that it is there."""
    model = Halting({"go": [[say("One ", "two ", "three.")]]}, "two ")
    async with open_stage(tmp_path, model) as at, aclosing(at.runtime.follow(at.session_id)) as heard:
        await anext(heard)
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_text("two ")
        piece = await anext(heard)
        model.go.set()
        await at.listener.until(PromptAnswered)

    assert written(piece) == "One two "


async def test_a_slow_reader_gets_the_whole_text_of_a_new_child(tmp_path: Path) -> None:
    model = Halting({"go": [[say("One ", "two ", "three.")]]}, "two ")
    async with (
        open_stage(tmp_path, model) as at,
        aclosing(at.runtime.follow(at.session_id, tree=True)) as heard,
    ):
        await anext(heard)
        child = await at.runtime.create_session(directory=tmp_path, parent_id=at.session_id)
        await at.runtime.send(child.id, "go")
        await at.listener.until_text("two ")
        bus = inside(at.runtime).bus
        await wait_until(lambda: bus.streaming_events(lambda session_id: True))  # nothing tells of it
        piece = await anext(heard)
        model.go.set()
        await at.listener.until(PromptAnswered)

    assert written(piece) == "One two "
