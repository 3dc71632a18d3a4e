"""Two servers and a worker on one database: what is said to one is heard at the other while it is written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec
import pytest

from asyncagents.client.client import Client, open_client
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import Event, PartDelta, PartUpdated, PromptAnswered, SessionStatus
from asyncagents.domain.id import SessionId
from asyncagents.server.discovery import LISTING_FILE, Listing
from asyncagents.testing.provider import Reply, Script
from tests.support.postgres.database import Server, a_database
from tests.support.process.command_line import PROCESS_PATIENCE, Desk, open_desk, read_until, wait_for_exit
from tests.support.wait import wait_until

WORDS = "one two three four five six seven eight nine ten "
SCRIPT: Script = {"count": [Reply(text=WORDS, chunks=20, gap=0.1)], "again": [Reply(text="Yes.")]}
BRISK = {"ASYNCAGENTS_HEARTBEAT_SECONDS": "3", "ASYNCAGENTS_POOL": "shared"}


@asynccontextmanager
async def server(desk: Desk, dsn: str, name: str, *words: str) -> AsyncIterator[Client]:
    """With a data directory of its own, as on a machine of its own."""
    data = desk.data.with_name(name)
    env = {"ASYNCAGENTS_STORE": dsn, "ASYNCAGENTS_DATA_DIR": str(data), **BRISK}
    process = await desk.start("serve", "--port", "0", *words, env=env)
    try:
        await read_until(process, "listening at ")
        listing = msgspec.json.decode((data / LISTING_FILE).read_bytes(), type=Listing)
        async with open_client(listing.url, token=listing.token) as client:
            yield client
    finally:
        process.terminate()
        await wait_for_exit(process)


@asynccontextmanager
async def worker(desk: Desk, dsn: str, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {"ASYNCAGENTS_STORE": dsn, "ASYNCAGENTS_DATA_DIR": str(desk.data.with_name("worker")), **BRISK}
    process = await desk.start("worker", *words, env=env)
    try:
        await read_until(process, "working on ")
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await wait_for_exit(process)


async def heard(client: Client, session_id: SessionId, ready: asyncio.Event) -> list[Event]:
    found: list[Event] = []
    async with client.events(session_id) as events:
        ready.set()
        async for event in events:
            found.append(event)
            if isinstance(event, PromptAnswered):
                return found
    return found


def told(events: list[Event]) -> tuple[str, int]:
    """The text as a client has it who joins pieces, and how many there were."""
    texts: dict[str, str] = {}
    pieces = 0
    for event in events:
        if isinstance(event, PartUpdated) and isinstance(event.part, TextPart):
            texts[event.part.id] = event.part.text
        elif isinstance(event, PartDelta) and event.field == "text":
            assert event.offset == len(texts[event.part_id]), "a piece is missing, or told twice"
            texts[event.part_id] += event.delta
            pieces += 1
    return next((text for text in reversed(texts.values()) if text != "count"), ""), pieces


async def until_writer_knows_listener(dsn: str) -> None:
    """A process reads who listens with its heartbeat: the worker's next one after that of a listener."""
    connection = await asyncpg.connect(dsn)
    try:
        since = await wait_until(lambda: connection.fetchval("SELECT min(beat) FROM worker WHERE listens"))
        known = "SELECT count(*) FROM worker WHERE capacity > 0 AND beat > $1"
        await wait_until(lambda: connection.fetchval(known, since))
    finally:
        await connection.close()


@pytest.mark.spec("X-10")
async def test_a_prompt_to_one_server_streams_to_a_client_of_another(
    tmp_path: Path, postgres_server: Server
) -> None:
    async with (
        a_database(postgres_server) as dsn,
        open_desk(tmp_path, SCRIPT) as (desk, _),
        server(desk, dsn, "a", "--concurrency", "0") as one,
        server(desk, dsn, "b", "--concurrency", "0") as other,
        worker(desk, dsn, "--concurrency", "4"),
        asyncio.timeout(PROCESS_PATIENCE),
        asyncio.TaskGroup() as group,
    ):
        session = await one.create_session(directory=desk.project)
        ready = asyncio.Event()
        listening = group.create_task(heard(other, session.id, ready))
        await ready.wait()
        await until_writer_knows_listener(dsn)
        entry = await one.prompt(session.id, "count")
        events = await listening
        text, pieces = told(events)
        assert text.strip() == WORDS.strip()
        assert pieces >= 5  # in many pieces, not when it was written down
        assert [part.text for part in entry.parts if isinstance(part, TextPart)] == [WORDS.strip()]
        assert any(isinstance(event, SessionStatus) for event in events)
        assert await other.messages(session.id) == await one.messages(session.id)
        assert (await other.prompt(session.id, "again")).info.session_id == session.id


async def test_a_run_works_alone_without_a_server_or_a_worker(
    tmp_path: Path, postgres_server: Server
) -> None:
    async with a_database(postgres_server) as dsn, open_desk(tmp_path, SCRIPT) as (desk, _):
        env = {"ASYNCAGENTS_STORE": dsn, **BRISK}
        ran = await desk.run("run", "again", env=env)
        assert ran.code == 0
        assert ran.out.strip() == "Yes."
        listed = await desk.run("sessions", "--json", env=env)
        assert len(listed.json) == 1
        looked = await desk.run("doctor", env=env)
        assert "PostgreSQL" in looked.out


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_run_warns_once_that_no_worker_serves_its_pool(
    tmp_path: Path, postgres_server: Server, form: str
) -> None:
    async with (
        a_database(postgres_server) as dsn,
        open_desk(tmp_path, SCRIPT) as (desk, _),
        server(desk, dsn, "a", "--concurrency", "0"),
        asyncio.timeout(PROCESS_PATIENCE),
    ):
        data = {"ASYNCAGENTS_STORE": dsn, "ASYNCAGENTS_DATA_DIR": str(desk.data.with_name("a")), **BRISK}
        run = await desk.start("run", "again", "--format", form, env=data)
        assert run.stderr is not None
        told = b""
        while b"no worker serves" not in told:
            more = await run.stderr.read(4096)
            assert more, f"it ended after {told!r}"
            told += more
        looked = await desk.run("doctor", env=data)
        [session] = (await desk.run("sessions", "--json", env=data)).json
        why = await desk.run("why", session["id"], env=data)
        async with worker(desk, dsn):
            ran = await wait_for_exit(run)

    err = told.decode() + ran.err
    start = "start one where its directories are, with `asyncagents worker --pools shared`"
    assert ran.code == 0
    assert ("Yes." in ran.out) is True
    assert err.count("no worker serves the pool 'shared'") == 1
    assert start in err
    assert start in why.out
    assert "serves the API, and leaves all work to workers" in looked.out
    assert "runs all sessions" not in looked.out
