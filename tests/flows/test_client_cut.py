"""Connections of a client are cut at the worst moments: nothing is done twice, nothing is missed."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.client import BoardSnapshot, Client, TaskRemoved, events, open_client
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import PartDelta, PartUpdated, PermissionAsked, SessionIdle
from asyncagents.domain.id import SessionId
from asyncagents.domain.sse import EventTooLong
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.errors import NotFound, Unavailable
from asyncagents.llm.scripted import Script, call, say
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.delegation import launch_task, open_delegation_stage
from tests.support.http.cutting_proxy import CuttingProxy, open_cutting_proxy
from tests.support.http.sdk import EventMirror
from tests.support.runtime import Stage, open_stage
from tests.support.tool import CAREFUL, Gate, build_pending_tool
from tests.support.wait import PATIENCE

PROMPTS = 30
MUCH = 6_000
SCRIPT: Script = {
    **{f"no. {n}": [[say(*(f"{n}.{word} " for word in range(8)))]] for n in range(PROMPTS)},
    "much": [[say(*(["x" * 2000] * MUCH))]],
    "ask": [[call("careful", text="x")], [say("Done.")]],
    "ship": [[call("deploy")], [say("Shipped.")]],
}


@asynccontextmanager
async def cut_off(data: Path) -> AsyncIterator[tuple[Client, CuttingProxy, Stage]]:
    async with (
        open_stage(data, SCRIPT, tools=[CAREFUL, build_pending_tool("deploy")]) as at,
        open_server(at.runtime, data, ServerOptions(port=0), directory=data) as listing,
        open_cutting_proxy(listing.url) as cutter,
        open_client(cutter.url, token=listing.token, patience=PATIENCE) as client,
    ):
        yield client, cutter, at


class Once:
    """Loses the first answer to a kind of request."""

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._done = False

    def __call__(self, asked: bytes, said: bytes) -> bool:
        if self._done or not asked.startswith(self._word):
            return False
        self._done = True
        return True


async def test_a_write_whose_answer_is_lost_is_done_once(tmp_path: Path) -> None:
    async with cut_off(tmp_path) as (client, cutter, _):
        cutter.cut = Once(b"POST /session ")
        session = await client.create_session(title="One")
        cutter.cut = Once(b"POST /v1/sessions ")
        begun, _ = await client.begin("no. 0", directory=tmp_path)
        cutter.cut = Once(b"POST /v1/sessions/")
        answer = await client.prompt(session.id, "no. 1")
        cutter.cut = Once(b"POST /v1/sessions/")
        await client.send(session.id, "for later", wakes=False)
        sessions = [each.title for each in await client.sessions()]
        entries = await client.messages(session.id)
        cutter.cut = Once(b"DELETE /session/")
        await client.delete_session(begun.id)
        with pytest.raises(NotFound):
            await client.delete_session(begun.id)

    assert cutter.cuts == 5
    assert sessions.count("One") == 1
    assert sessions.count("no. 0") == 1
    assert [entry.text for entry in entries] == ["no. 1", answer.text, "for later"]


async def test_answers_and_results_whose_response_is_lost_count_once(tmp_path: Path) -> None:
    async with cut_off(tmp_path) as (client, cutter, at):
        asked = await client.send(at.session_id, "ask")
        await at.listener.until(PermissionAsked)
        asks = await client.asks()
        cutter.cut = Once(b"POST /v1/asks/")
        await client.answer(str(asks[0].call.ask_id), "once")
        done = await client.wait_for_answer(at.session_id, asked)
        await client.prompt(at.session_id, "ship")
        (pending,) = await client.async_tools.list()
        cutter.cut = Once(b"POST /async-tool/")
        result = await client.async_tools.submit_result(pending.id, "live")

    assert cutter.cuts == 2
    assert done.text == "Done."
    assert result.status == "completed"


@pytest.mark.parametrize("seed", range(3))
async def test_a_stream_that_is_cut_again_and_again_misses_nothing(tmp_path: Path, seed: int) -> None:
    rng, screen = random.Random(seed), EventMirror()
    async with cut_off(tmp_path) as (client, cutter, at):
        cutter.cut = lambda asked, said: b"/events" in asked[:200] and rng.random() < 0.5
        async with (
            asyncio.timeout(3 * PATIENCE),
            asyncio.TaskGroup() as group,
            client.events(at.session_id) as events,
        ):
            listening = group.create_task(screen.listen(events))
            for n in range(PROMPTS):
                await client.prompt(at.session_id, f"no. {n}", key=f"{n}")
            entries = await client.messages(at.session_id)
            await screen.until_shows(entries)
            listening.cancel()
            await asyncio.wait([listening])

    assert cutter.cuts > PROMPTS
    assert len(entries) == 2 * PROMPTS


async def test_a_reader_that_stands_still_is_cut_off_and_catches_up(tmp_path: Path) -> None:
    """More than queues and sockets hold happens before the first event is read."""
    deltas, texts = 0, {}
    async with cut_off(tmp_path) as (client, _, at), client.events(at.session_id) as events:
        await at.runtime.prompt(at.session_id, "much")
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                match event:
                    case PartDelta():
                        deltas += 1
                    case PartUpdated(part=TextPart(id=part_id, text=text)):
                        texts[part_id] = text
                    case SessionIdle():
                        break
                    case _:
                        pass

    assert deltas < MUCH
    assert "x" * 2000 * MUCH in texts.values()


async def test_a_response_that_is_not_from_the_server_raises_unavailable(tmp_path: Path) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>")
        writer.close()

    async with await asyncio.start_server(stranger, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with open_client(url, patience=0.3) as client:
            with pytest.raises(Unavailable, match="does not match the schema"):
                await client.health()
            with pytest.raises(Unavailable):
                await anext(client.board())
            with pytest.raises(Unavailable):
                await client.prompt(SessionId("ses_x"), "hi")


async def test_an_event_over_the_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1206\r\n\r\ndata: " + b"x" * 1200)
        writer.close()

    monkeypatch.setattr(events, "MOST_BYTES", 1000)
    async with await asyncio.start_server(stranger, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with open_client(url, patience=0.3) as client:
            with pytest.raises(EventTooLong, match="1000 bytes"):
                await anext(client.board())


async def test_a_board_that_is_cut_ends_in_the_state_of_a_fresh_one(tmp_path: Path) -> None:
    """Also across a restart of the server; what came before the cut is not told anew as a whole."""
    tasks: dict[SessionId, BackgroundTask] = {}
    snapshots = 0
    async with (
        open_delegation_stage(
            tmp_path, {"go": [[launch_task("one", "dig"), launch_task("two", "dig")], [say("Launched.")]]}
        ) as at,
        open_client(data=tmp_path, patience=PATIENCE) as client,
        asyncio.timeout(2 * PATIENCE),
        aclosing(client.board()) as board,
    ):
        async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
            first = await anext(board)
        await at.runtime.prompt(at.session_id, "go")
        await at.runtime.wait_tree(at.session_id)
        async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
            page = await client.tasks.page()
            async for news in board:
                match news:
                    case BoardSnapshot():
                        snapshots += 1
                    case TaskRemoved(session_id=gone):
                        del tasks[gone]
                    case _:
                        tasks[news.session_id] = news.task
                if tasks == {task.session_id: task for task in page.tasks}:
                    break

    assert isinstance(first, BoardSnapshot)
    assert len(first.tasks) == 0
    assert len(tasks) == 2
    assert snapshots == 0
    assert {task.status for task in tasks.values()} == {"completed"}


async def test_patience_begins_when_the_server_goes_away(tmp_path: Path) -> None:
    """Not when it last had something to say, nor when a long question was asked."""
    gate = Gate("gate")
    script: Script = {"go": [[call("gate")], [say("Through.")]]}
    async with (
        open_stage(tmp_path, script, tools=[gate.tool]) as at,
        open_client(data=tmp_path, patience=2.0) as client,
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as group,
    ):
        loop = asyncio.get_running_loop()
        async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
            answer = group.create_task(client.prompt(at.session_id, "go"))
            await gate.until_started()
            silent = asyncio.Event()
            loop.call_later(2.5, silent.set)
            await silent.wait()
        async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
            gate.go.set()
            said = await answer

    assert said.text == "Through."
