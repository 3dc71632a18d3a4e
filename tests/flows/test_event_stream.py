"""`/event` and `/global/event`, as OpenCode's clients listen to them."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import ClientSession
from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import project_id
from asyncagents.engine.event.global_stream import SessionLocation
from asyncagents.engine.runtime.instances import DISPOSED
from asyncagents.llm.scripted import Script, ScriptedModel, call, fail, pause, say
from asyncagents.server.discovery import Listing
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.tools.project import projects
from tests.support.http.client import open_http_client
from tests.support.http.opencode import HEARTBEAT, OpencodeMirror, OpencodeStream, open_opencode_stream
from tests.support.http.server import NO_HEARTBEAT
from tests.support.model import HaltingModel
from tests.support.runtime import Stage, open_runtime, open_stage
from tests.support.tool import CAREFUL
from tests.support.wait import PATIENCE

HELLO = {"hi": [[say("Hel", "lo.")]], "again": [[say("Again.")]]}


class Served(Struct, frozen=True):
    stage: Stage
    listing: Listing
    directory: Path


@asynccontextmanager
async def served(
    tmp_path: Path,
    script: Script | ScriptedModel,
    *,
    heartbeat: float = NO_HEARTBEAT,
    name: str = "project",
    **more: Any,
) -> AsyncIterator[Served]:
    directory = tmp_path / name
    directory.mkdir(exist_ok=True)
    where = ServerOptions(port=0, heartbeat_seconds=heartbeat)
    async with (
        open_stage(tmp_path / "data", script, directory=directory, **more) as at,
        open_server(at.runtime, tmp_path / "data", where, directory=directory) as listing,
    ):
        yield Served(at, listing, directory)


@pytest.mark.spec("X-01")
async def test_frames_and_headers_are_those_that_clients_of_opencode_expect(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as at, open_opencode_stream(at.listing) as hearer:
        await at.stage.prompt("hi")
        await hearer.until("session.idle")

    named = "content-type", "cache-control", "x-accel-buffering", "x-content-type-options"
    assert [hearer.headers[name] for name in named] == [
        "text/event-stream",
        "no-cache, no-transform",
        "no",
        "nosniff",
    ]
    assert all(list(event) == ["id", "type", "properties"] for event in hearer.events)
    ids = [event["id"] for event in hearer.events]
    assert ids == sorted(set(ids))
    assert all(each.startswith("evt_") and len(each) == 30 for each in ids)
    assert hearer.events[0]["properties"] == {}


@pytest.mark.spec("X-01")
async def test_events_of_a_turn_come_in_the_order_that_clients_rely_on(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as at, open_opencode_stream(at.listing) as hearer:
        session = await at.stage.runtime.create_session(directory=at.directory)
        await at.stage.runtime.prompt(session.id, "hi")
        await hearer.until("session.idle")

    said = [_short(event) for event in hearer.events if event["type"] != "prompt.answered"]
    assert said == [
        "server.connected",
        "session.created",
        "message.updated user",
        "message.part.updated text",
        "session.updated",
        "session.status busy",
        "message.updated assistant",
        "message.part.updated step-start",
        "message.part.updated text",
        "message.part.delta",
        "message.part.delta",
        "message.part.updated text",
        "message.part.updated step-finish",
        "message.updated assistant",
        "session.updated",
        "session.status idle",
        "session.idle",
    ]


def _short(event: dict[str, Any]) -> str:
    told = event["properties"]
    detail = told.get("part", {}).get("type") or told.get("info", {}).get("role")
    if event["type"] == "session.status":
        detail = told["status"]["type"]
    return f"{event['type']} {detail}" if detail else str(event["type"])


@pytest.mark.spec("X-01")
async def test_an_abort_is_one_error_event_before_the_session_is_idle(tmp_path: Path) -> None:
    script = {"go": [[say("I beg"), pause(NO_HEARTBEAT)]]}
    async with served(tmp_path, script) as at, open_opencode_stream(at.listing) as hearer:
        await at.stage.runtime.send(at.stage.session_id, "go")
        await hearer.until("message.part.delta")
        await at.stage.abort()
        await hearer.until("session.idle")

    errors = [event for event in hearer.events if event["type"] == "session.error"]
    assert [each["properties"]["error"]["name"] for each in errors] == ["MessageAbortedError"]
    assert hearer.types.index("session.error") < len(hearer.types) - 2


@pytest.mark.spec("X-01")
async def test_a_failure_is_one_error_event_before_the_session_is_idle(tmp_path: Path) -> None:
    async with served(tmp_path, {"go": [[fail("no")]]}) as at, open_opencode_stream(at.listing) as hearer:
        await at.stage.prompt("go")
        await hearer.until("session.idle")

    assert hearer.types.count("session.error") == 1
    assert hearer.types[-2:] == ["session.status", "session.idle"]


@pytest.mark.spec("X-01")
async def test_ask_events_match_the_listed_asks(tmp_path: Path) -> None:
    script = {"go": [[call("careful", text="x")], [say("Done.")]]}
    async with served(tmp_path, script, tools=[CAREFUL]) as at, open_opencode_stream(at.listing) as hearer:
        await at.stage.runtime.send(at.stage.session_id, "go")
        asked = await hearer.until("permission.asked")
        (waiting,) = await at.stage.runtime.asks()
        await at.stage.runtime.answer(asked["id"], "once")
        replied = await hearer.until("permission.replied")
        await hearer.until("session.idle")

    assert waiting.call.open is not None
    assert waiting.call.open.ask is not None
    assert asked["id"] == waiting.call.open.ask.id
    assert asked["sessionID"] == at.stage.session_id
    assert set(asked) >= {"permission", "patterns", "metadata", "always", "tool"}
    assert replied == {"sessionID": at.stage.session_id, "requestID": asked["id"], "reply": "once"}


@pytest.mark.spec("X-01")
async def test_deleting_a_tree_publishes_an_event_for_each_session(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as at, open_opencode_stream(at.listing) as hearer:
        runtime, root_id = at.stage.runtime, at.stage.session_id
        child = await runtime.create_session(directory=at.directory, parent_id=root_id)
        other = await runtime.create_session(directory=at.directory)
        await runtime.delete_session(root_id)
        gone = [await hearer.until("session.deleted") for _ in range(2)]
        await runtime.delete_session(other.id)
        last = await hearer.until("session.deleted")

    assert {each["sessionID"] for each in gone} == {root_id, child.id}
    assert all(each["info"]["id"] == each["sessionID"] for each in [*gone, last])


@pytest.mark.spec("X-01")
async def test_a_stream_covers_one_directory_and_the_global_stream_names_each(tmp_path: Path) -> None:
    async with (
        served(tmp_path, HELLO) as at,
        open_opencode_stream(at.listing) as here,
        open_opencode_stream(at.listing, "/global/event") as everywhere,
    ):
        runtime = at.stage.runtime
        there = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(there.id, "hi")
        await runtime.prompt(at.stage.session_id, "hi")
        await here.until("session.idle")
        await everywhere.until("session.idle", lambda told: told["sessionID"] == at.stage.session_id)

    assert here.sessions() == {at.stage.session_id}
    assert everywhere.sessions() == {at.stage.session_id, there.id}
    assert list(everywhere.events[0]) == ["payload"]
    places = {
        each["payload"]["properties"]["sessionID"]: (each["directory"], each["project"])
        for each in everywhere.events[1:]
    }
    assert places == {
        there.id: (str(tmp_path), there.project_id),
        at.stage.session_id: (str(at.directory), project_id(str(at.directory))),
    }


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("named", ["nothing", "query", "slash", "dots", "relative", "link", "header", "both"])
async def test_all_spellings_of_a_directory_select_the_same_events(tmp_path: Path, named: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "my projäct", target_is_directory=True)
    async with served(tmp_path, HELLO, name="my projäct") as at:
        path = str(at.directory)
        queries = {
            "query": path,
            "slash": f"{path}/",
            "dots": f"{path}/../{at.directory.name}/.",
            "relative": f"../{at.directory.name}",
            "link": str(tmp_path / "link"),
            "both": path,
        }
        headers = {"header": {"x-opencode-directory": quote(path, safe="")}}
        headers["both"] = {"x-opencode-directory": "/elsewhere"}
        query = f"?workspace=wrk_x&directory={quote(queries[named])}" if named in queries else "?workspace="
        async with open_opencode_stream(
            at.listing, f"/event{query}", headers=headers.get(named, {})
        ) as hearer:
            await at.stage.prompt("hi")
            await hearer.until("session.idle")

    assert hearer.sessions() == {at.stage.session_id}


@pytest.mark.spec("X-01")
async def test_a_missing_directory_has_no_events_and_an_invalid_path_is_refused(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, HELLO) as at, open_http_client(at.listing) as caller:
        async with open_opencode_stream(at.listing, f"/event?directory={tmp_path}/none") as hearer:
            await at.stage.prompt("hi")
            at.stage.runtime.instances.dispose(str(tmp_path / "none"))
            await hearer.until_end()
        bad = await caller.request("GET", "/event?directory=/a%0Ab", headers=caller.authorization)

    assert hearer.types == ["server.connected", "server.instance.disposed"]
    assert bad.status == 400


@pytest.mark.spec("X-01")
async def test_heartbeats_are_sent_also_while_events_happen(tmp_path: Path) -> None:
    async with (
        served(tmp_path, HELLO, heartbeat=0.05) as at,
        open_opencode_stream(at.listing) as here,
        open_opencode_stream(at.listing, "/global/event") as everywhere,
    ):
        beats = 0
        async with asyncio.timeout(PATIENCE):
            while beats < 3:
                await at.stage.runtime.create_session(directory=at.directory)
                await here.until("session.created")
                beats = sum(HEARTBEAT.encode() in frame for frame in here.raw)
            await everywhere.until(
                "session.created", lambda told: sum(HEARTBEAT.encode() in f for f in everywhere.raw) > 1
            )

    (beat, *_) = [frame for frame in everywhere.raw if HEARTBEAT.encode() in frame]
    told = msgspec.json.decode(beat[6:])
    assert list(told) == ["payload"]
    assert told["payload"]["type"] == HEARTBEAT
    assert told["payload"]["properties"] == {}


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("path", ["/event", "/global/event"])
async def test_a_client_that_joins_during_a_streamed_text_gets_its_beginning(
    tmp_path: Path, path: str
) -> None:
    """As clients put it together that do not look at offsets."""
    model = HaltingModel({"go": [[say("One ", "two ", "three.")]]}, "two ")
    async with served(tmp_path, model) as at:
        await at.stage.runtime.send(at.stage.session_id, "go")
        await at.stage.listener.until_text("two ")
        async with open_opencode_stream(at.listing, path) as hearer:
            first = await hearer.until("message.part.updated")
            model.go.set()
            await hearer.until("session.idle")

    screen = OpencodeMirror()
    for event in hearer.events[: hearer.types.index("message.part.delta") + 1]:
        screen.apply(event)
    assert first["part"]["text"] == "One two "
    assert [part["text"] for part in screen.parts.values()] == ["One two three."]


@pytest.mark.spec("X-01")
async def test_events_of_another_process_begin_with_session_created(tmp_path: Path) -> None:
    async with (
        served(tmp_path, HELLO) as at,
        open_runtime(tmp_path / "data", model=ScriptedModel({}), serve=False) as other,
        open_opencode_stream(at.listing) as hearer,
    ):
        session = await other.create_session(directory=at.directory, title="Theirs")
        await other.send(session.id, "note", wakes=False)
        await hearer.until("message.part.updated")
        await other.send(at.stage.session_id, "hi")
        await hearer.until("session.idle", lambda told: told["sessionID"] == at.stage.session_id)

    theirs = [event["type"] for event in hearer.events if event["properties"].get("sessionID") == session.id]
    assert theirs[0] == "session.created"
    assert theirs.count("session.created") == 1
    assert {"message.updated", "message.part.updated"} <= set(theirs)


@pytest.mark.spec("X-01")
async def test_disposing_a_directory_ends_its_streams_but_not_its_turn(tmp_path: Path) -> None:
    model = HaltingModel({"go": [[say("One ", "two.")]]}, "One ")
    async with (
        served(tmp_path, model) as at,
        open_http_client(at.listing) as caller,
        open_opencode_stream(at.listing) as here,
        open_opencode_stream(at.listing, f"/event?directory={tmp_path}") as there,
        open_opencode_stream(at.listing, "/global/event") as everywhere,
    ):
        await at.stage.runtime.send(at.stage.session_id, "go")
        await here.until("message.part.delta")
        done = await caller.request("POST", "/instance/dispose", headers=caller.authorization)
        await here.until_end()
        model.go.set()
        await everywhere.until("session.idle")
        alone = list(there.types)
        all_done = await caller.request("POST", "/global/dispose", headers=caller.authorization)
        await there.until_end()
        await everywhere.until("global.disposed")

    assert done.status == 200
    assert done.json is True
    assert all_done.status == 200
    assert all_done.json is True
    assert here.events[-1]["type"] == "server.instance.disposed"
    assert here.events[-1]["properties"] == {"directory": str(at.directory)}
    assert alone == ["server.connected"]
    assert there.types == ["server.connected", "server.instance.disposed"]
    assert everywhere.events[-1]["directory"] == "global"
    assert [
        event.get("directory") for event in everywhere.events if event["payload"]["type"] == DISPOSED
    ] == [
        str(at.directory),
        str(tmp_path),
    ]
    assert "One two." in [
        part.text for part in (await _last(tmp_path, at)).parts if isinstance(part, TextPart)
    ]


async def _last(tmp_path: Path, at: Served) -> MessageWithParts:
    async with open_runtime(tmp_path / "data", model=ScriptedModel({}), serve=False) as runtime:
        return (await runtime.messages(at.stage.session_id))[-1]


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("path", ["/instance/dispose", "/global/dispose"])
async def test_files_of_a_directory_that_is_disposed_of_are_read_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(projects, "CACHE_MS", 3_600_000)
    coding = Config(data_dir=tmp_path / "data")
    rules = tmp_path / "project" / "AGENTS.md"
    rules.parent.mkdir()
    rules.write_text("Use tabs.")
    async with served(tmp_path, HELLO, coding=coding) as at, open_http_client(at.listing) as caller:
        await at.stage.prompt("hi")
        rules.write_text("Use spaces.")
        await at.stage.prompt("hi")
        await caller.request("POST", path, headers=caller.authorization)
        await at.stage.prompt("hi")
        systems = [request.system for request in at.stage.model.requests]

    assert ["Use tabs." in each for each in systems] == [True, True, False]
    assert "Use spaces." in systems[-1]


@pytest.mark.spec("X-01")
async def test_a_head_request_for_a_stream_leaves_no_listener(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as at, open_http_client(at.listing) as caller:
        told = [
            await caller.request("HEAD", path, headers=caller.authorization)
            for path in ("/event", "/global/event")
        ]
        left = at.stage.runtime.broadcast.directories

    assert [each.status for each in told] == [200, 200]
    assert left == set()


@pytest.mark.spec("X-01")
async def test_an_announcement_reaches_only_the_streams_of_its_directory(tmp_path: Path) -> None:
    async with (
        served(tmp_path, HELLO) as at,
        open_opencode_stream(at.listing) as here,
        open_opencode_stream(at.listing, f"/event?directory={tmp_path}") as there,
        open_opencode_stream(at.listing, "/global/event") as everywhere,
    ):
        broadcast = at.stage.runtime.broadcast
        broadcast.announce(
            "vcs.branch.updated", {"branch": "a\nb"}, location=SessionLocation(str(at.directory), "p")
        )
        broadcast.announce("installation.updated", {"version": "1"})
        told = [await each.until("installation.updated") for each in (here, there, everywhere)]

    assert told == [{"version": "1"}] * 3
    assert here.types[1:] == ["vcs.branch.updated", "installation.updated"]
    assert here.events[1]["properties"] == {"branch": "a\nb"}
    assert there.types[1:] == ["installation.updated"]
    assert everywhere.events[1]["project"] == "p"


def _ticket(user: str, password: str) -> str:
    return quote(b64encode(f"{user}:{password}".encode()).decode())


@pytest.mark.spec("X-01")
async def test_a_token_in_the_query_authenticates_and_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(tmp_path, HELLO) as at, open_http_client(at.listing) as caller:
        token = str(at.listing.token)
        for user in ("opencode", "", "x"):
            path = f"/event?auth_token={_ticket(user, token)}"
            async with caller.stream(path) as listener:
                assert (await listener.next()) is not None
        made = await caller.request("POST", f"/session?auth_token={_ticket('opencode', token)}", body={})
        wrong = [
            await caller.request("GET", f"/global/event?auth_token={each}")
            for each in (
                _ticket("opencode", token[:-1]),
                token,
                quote(token),
                "%FF",
                "",
                "====",
                _ticket("", ""),
            )
        ]
        twice = await caller.get("/session", auth_token=_raw_ticket(token))

    assert made.status == 200
    assert twice.status == 200
    assert [each.status for each in wrong] in ([401] * 7, [401, 401, 401, 400, 401, 401, 401])
    assert token not in caplog.text
    assert _ticket("opencode", token) not in caplog.text
    assert all(token.encode() not in each.body for each in wrong)


def _raw_ticket(token: str) -> str:
    return b64encode(f"opencode:{token}".encode()).decode()


@pytest.mark.spec("X-01")
async def test_a_request_without_a_token_gets_basic_and_bearer_challenges(tmp_path: Path) -> None:
    async with (
        served(tmp_path, HELLO) as at,
        ClientSession() as http,
        http.get(f"{at.listing.url}/event") as refused,
    ):
        challenges = refused.headers.getall("www-authenticate")

    assert refused.status == 401
    assert challenges == ['Basic realm="asyncagents"', 'Bearer realm="asyncagents"']


@pytest.mark.spec("X-01")
async def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    connected = asyncio.Event()

    async def listen(at: Served) -> OpencodeStream:
        async with open_opencode_stream(at.listing) as hearer:
            connected.set()
            await hearer.until_end()
            return hearer

    async with asyncio.TaskGroup() as group, served(tmp_path, HELLO) as at:
        listening = group.create_task(listen(at))
        await connected.wait()

    assert listening.result().types == ["server.connected"]
