"""The client is used as a runtime is, and a server that goes and comes back is no end of anything."""

import asyncio
import re
from pathlib import Path

import pytest

from asyncagents.client.client import open_client
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import (
    Event,
    PartDelta,
    PartUpdated,
    PermissionAsked,
    PromptAnswered,
    SessionDeleted,
    SessionIdle,
)
from asyncagents.domain.http_shapes import SentFile
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.board import BoardSnapshot
from asyncagents.errors import Conflict, InvalidInput, NotFound, Unauthorized, Unavailable
from asyncagents.llm.scripted import Script, call, say
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.sdk import open_attached_client
from tests.support.runtime import open_stage
from tests.support.tool import CAREFUL, Gate, build_pending_tool
from tests.support.wait import PATIENCE

HELLO: Script = {"hi": [[say("Hel", "lo.")]], "again": [[say("Again.")]]}
NOWHERE = SessionId("ses_none")


async def test_a_session_is_begun_prompted_read_and_deleted(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, at):
        session = await client.create_session(title="Mine", key="s")
        same = await client.create_session(title="Mine", key="s")
        answer = await client.prompt(session.id, "hi", key="k")
        repeated = await client.prompt(session.id, "hi", key="k")
        entries, stored = await client.messages(session.id), await at.runtime.messages(session.id)
        one = await client.message(session.id, entries[0].info.id)
        known = await client.session(session.id)
        todos, children = await client.todos(session.id), await client.children(session.id)
        listed = {each.id for each in await client.sessions(limit=10)}
        roots = {each.id for each in await client.roots(tmp_path)}
        found = await client.find_session(session.id[4:20])
        status = await client.wait(session.id)
        why = await client.tasks.why(session.id)
        health, stats = await client.health(), await client.stats()
        await client.delete_session(session.id)
        with pytest.raises(NotFound, match=session.id):
            await client.session(session.id)

    assert session == same
    assert answer.text == "Hello."
    assert answer == repeated
    assert entries == stored
    assert one == entries[0]
    assert found == known
    assert todos == ()
    assert children == ()
    assert session.id in listed & roots
    assert status == Idle()
    assert why.code == "idle"
    assert health.status == "ok"
    assert stats.total_tasks == 0


async def test_a_stream_yields_the_events_of_a_turn(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, at):
        events = [event async for event in client.stream(at.session_id, "hi")]
        again = [event async for event in client.stream(at.session_id, "again", key="k")]
        known = [event async for event in client.stream(at.session_id, "again", key="k")]

    assert "".join(event.delta for event in events if isinstance(event, PartDelta)) == "Hello."
    assert isinstance(events[-1], PromptAnswered)
    assert isinstance(again[-1], PromptAnswered)
    assert known == []


async def test_begin_and_send_return_at_once_and_their_answers_can_be_waited_for(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, _at):
        session, message_id = await client.begin("hi", directory=tmp_path, key="b")
        first = await client.wait_for_answer(session.id, message_id)
        sent = await client.send(session.id, "again")
        second = await client.wait_for_answer(session.id, sent)
        again = await client.begin("hi", directory=tmp_path, key="b")
        kept = await client.send(session.id, "for later", wakes=False)
        unanswered = await client.answer_to(kept)
        state = await client.state(session.id)

    assert first.text == "Hello."
    assert second.text == "Again."
    assert again[1] == message_id
    assert unanswered is None
    assert state.root_id == session.id
    assert state.at_work is False
    assert state.is_run is False


async def test_asks_are_seen_and_answered(tmp_path: Path) -> None:
    script: Script = {"go": [[call("careful", text="rm")], [say("Done.")]]}
    async with open_attached_client(tmp_path, script, CAREFUL) as (client, at):
        async with client.events(at.session_id) as events:
            message_id = await client.send(at.session_id, "go")
            async for event in events:
                if isinstance(event, PermissionAsked):
                    break
        (waiting,) = await client.asks(at.session_id)
        same = await client.asks()
        (stored,) = await at.runtime.asks()
        assert waiting.call.ask_id is not None
        answered = await client.answer(waiting.call.ask_id, "once", by="me")
        with pytest.raises(Conflict, match="otherwise"):
            await client.answer(waiting.call.ask_id, "reject")
        with pytest.raises(NotFound):
            await client.answer("per_none", "once")
        with pytest.raises(InvalidInput, match="answer with"):
            await client.answer(waiting.call.ask_id, "perhaps")
        done = await client.wait_for_answer(at.session_id, message_id)

    assert waiting == stored
    assert same == (waiting,)
    assert answered.answered_by == "me"
    assert done.text == "Done."


async def test_results_from_outside_are_given_once(tmp_path: Path) -> None:
    script: Script = {"ship": [[call("deploy")], [say("Waiting.")]]}
    async with open_attached_client(tmp_path, script, build_pending_tool("deploy")) as (client, at):
        await client.prompt(at.session_id, "ship")
        status = await client.status(at.session_id)
        (pending,) = await client.async_tools.list(session_id=at.session_id)
        calls = await client.open_calls(at.session_id)
        statuses = await client.statuses(), await client.statuses(at.session_id)
        pending_call = await client.async_tools.submit_result(pending.id, "v2 is live", metadata={"n": 1})
        same = await client.async_tools.submit_result(pending.id, "v2 is live", metadata={"n": 1})
        with pytest.raises(Conflict, match="v2 is live"):
            await client.async_tools.submit_error(pending.id, "no")
        known = await client.async_tools.get(pending.id)
        with pytest.raises(NotFound, match="pending call"):
            await client.async_tools.cancel("tool_none")
        await client.wait(at.session_id)

    assert isinstance(status, WaitingAsync)
    assert statuses == ({at.session_id: status}, {at.session_id: status})
    assert [each.id for each in calls] == [pending.id]
    assert pending_call == same == known
    assert pending_call.status == "completed"


async def test_a_refusal_of_the_server_is_raised_with_its_message(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, at):
        with pytest.raises(NotFound, match="no session with id 'ses_none'") as nowhere:
            await client.prompt(NOWHERE, "hi")
        with pytest.raises(NotFound):
            await client.answer_to(MessageId("msg_none"))
        with pytest.raises(InvalidInput, match="a prompt needs some text"):
            await client.send(at.session_id, " ")
        with pytest.raises(InvalidInput, match="is no model"):
            await client.send(at.session_id, "hi", model="nothing")
        with pytest.raises(InvalidInput, match="seconds must be from 0 to 60"):
            await client.abort(at.session_id, seconds=61)
        with pytest.raises(NotFound):
            await client.tasks.get(NOWHERE)
        with pytest.raises(NotFound):
            await client.tasks.cancel(NOWHERE)
        with pytest.raises(NotFound):
            await client.session(SessionId("../../v1/health"))
        stopped = await client.abort(at.session_id)
        picture = SentFile(mime="image/png", url="data:image/png;base64,AAAA")
        seen = await client.prompt(at.session_id, "look", files=[picture])

    assert nowhere.value.kind == "session"
    assert nowhere.value.id == "ses_none"
    assert stopped
    assert seen.text


async def test_a_client_without_the_right_token_is_unauthorized(tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path, HELLO) as at,
        open_server(at.runtime, tmp_path, ServerOptions(port=0)) as listing,
    ):
        async with open_client(listing.url, token="wrong") as client:
            with pytest.raises(Unauthorized, match="token"):
                await client.session(at.session_id)
            with pytest.raises(Unauthorized, match="token"):
                await client.prompt(at.session_id, "hi")
        async with open_client(f"{listing.url}/", token=listing.token) as client:
            known = await client.session(at.session_id)

    assert known.id == at.session_id
    assert listing.token is not None
    assert listing.token not in repr(listing)


async def test_a_client_without_a_server_raises_unavailable(tmp_path: Path) -> None:
    (tmp_path / "server.lock").touch()
    (tmp_path / "server.json").write_text('{"url": "http://127.0.0.1:9", "token": "t"}')
    async with open_client(data=tmp_path, patience=0.2) as client:
        with pytest.raises(Unavailable, match="asyncagents serve"):
            await client.health()
        with pytest.raises(Unavailable, match="asyncagents serve"):
            await client.prompt(NOWHERE, "hi")
    async with open_client("http://127.0.0.1:9", patience=0.2) as client:
        with pytest.raises(Unavailable, match=r"^the server does not respond: Connection refused$"):
            await client.health()
        with pytest.raises(Unavailable, match="does not respond"):
            await anext(client.board())


@pytest.mark.parametrize("url", ["127.0.0.1:5165", "ftp://x", "", "http://x\n"])
async def test_an_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid server URL"):
        async with open_client(url):
            pass


async def test_a_client_needs_either_a_url_or_a_data_directory(tmp_path: Path) -> None:
    wrong = (open_client(), open_client("http://x", data=tmp_path), open_client(data=tmp_path, token="t"))
    for client in wrong:
        with pytest.raises(InvalidInput, match="give either url"):
            async with client:
                pass


async def test_a_client_goes_on_when_its_server_comes_back_elsewhere(tmp_path: Path) -> None:
    """The runtime works on while nobody listens; what happened meanwhile is told afterwards."""
    gate = Gate("gate")
    script: Script = {"go": [[call("gate")], [say("Through.")]]}
    heard: list[Event] = []
    async with open_stage(tmp_path, script, tools=[gate.tool]) as at, open_client(data=tmp_path) as client:
        listening = asyncio.Event()

        async def listen() -> None:
            async with client.events(at.session_id) as events:
                listening.set()
                async for event in events:
                    heard.append(event)
                    if isinstance(event, PromptAnswered):
                        return

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
                hearing = group.create_task(listen())
                await listening.wait()
                answer = group.create_task(client.prompt(at.session_id, "go"))
                await gate.until_started()
            gate.go.set()
            await at.listener.until(SessionIdle)
            async with open_server(at.runtime, tmp_path, ServerOptions(port=0)):
                said = await answer
                await hearing

    assert said.text == "Through."
    texts = [
        event.part.text
        for event in heard
        if isinstance(event, PartUpdated) and isinstance(event.part, TextPart)
    ]
    assert texts[-1] == "Through."


async def test_the_board_begins_with_a_snapshot_and_tasks_are_read_by_page(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, _at):
        board = client.board()
        first = await anext(board)
        await board.aclose()
        page = await client.tasks.page(status="running", search="x", agent="general", limit=5)

    assert isinstance(first, BoardSnapshot)
    assert page.total == 0
    assert page.limit == 5


async def test_events_end_with_their_session(tmp_path: Path) -> None:
    async with open_attached_client(tmp_path, HELLO) as (client, at), client.events(at.session_id) as events:
        await client.delete_session(at.session_id)
        heard = [event async for event in events]

    assert isinstance(heard[-1], SessionDeleted)


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "x/../y", "x?y#z", "..%2f"])
async def test_no_id_becomes_another_path(tmp_path: Path, name: str) -> None:
    """One step up from the events of a session there are those of the board."""
    nobody = SessionId(name)
    async with open_attached_client(tmp_path, HELLO) as (client, _), asyncio.timeout(PATIENCE):
        with pytest.raises(NotFound, match=re.escape(repr(name))):
            await client.session(nobody)
        with pytest.raises(NotFound, match=re.escape(repr(name))):
            await client.prompt(nobody, "hi")
        with pytest.raises(NotFound, match=re.escape(repr(name))):
            await client.tasks.cancel(nobody)
