"""A client of OpenCode's streams, cut off again and again: `python -m tests.support.load.event_stream`."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout
from msgspec import Struct

from asyncagents.server.discovery import Listing, find_server
from tests.support.http.opencode import OpencodeMirror, OpencodeStream, open_opencode_stream
from tests.support.load.board_stream import PATIENCE, Worker, open_worker

HERE = f"directory={quote('/project', safe='')}"


class Reader:
    """Reads over HTTP what there is."""

    def __init__(self, http: ClientSession, listing: Listing) -> None:
        self._http = http
        self.listing = listing
        self._token = {"authorization": f"Bearer {listing.token}"}

    async def screen(self) -> OpencodeMirror:
        """Of all sessions; one that goes meanwhile is not there."""
        seen = OpencodeMirror()
        for session in await self.ask("GET", f"/session?{HERE}&limit=10000"):
            entries = await self.ask("GET", f"/session/{session['id']}/message")
            if entries is not None:
                seen.read(session, entries)
        return seen

    async def ask(self, method: str, path: str) -> Any:
        """None: there is no such thing."""
        url = f"{self.listing.url}{path}"
        async with self._http.request(method, url, headers=self._token) as response:
            if response.status == 404:
                return None
            assert response.status == 200, await response.text()
            return await response.json()


@asynccontextmanager
async def open_reader(data: Path) -> AsyncIterator[Reader]:
    listing = find_server(data)
    assert listing is not None
    async with ClientSession(timeout=ClientTimeout(total=PATIENCE)) as http:
        yield Reader(http, listing)


class StreamCuts(Struct, frozen=True):
    """What a client went through."""

    cuts: int
    heard: int
    sessions: int
    parts: int


async def cut_event_streams(directory: Path, *, cuts: int, restarts: int, seed: int) -> StreamCuts:
    """Agents work. A client listens, hears some of what happens and is cut off; then it begins afresh. The
    last time it reads what there is and hears on, until all is at rest: then it knows what there is."""
    rng, heard, data, seen = random.Random(seed), 0, directory / "data", OpencodeMirror()
    for number in range(restarts + 1):
        async with open_worker(data) as worker, open_reader(data) as reader:
            await worker.tell(f"work {rng.randrange(2**32)}")
            for _ in range(cuts // (restarts + 1)):
                heard += await _for_a_while(reader, rng)
            if number < restarts:
                await worker.stop(signal.SIGKILL if number % 2 == 0 else None)
                continue
            seen, last = await _to_the_end(worker, reader, rng)
            heard += last
            await worker.stop()
    return StreamCuts(cuts, heard, len(seen.sessions), len(seen.parts))


def _path(rng: random.Random) -> str:
    return rng.choice([f"/event?{HERE}", "/global/event"])


async def _for_a_while(reader: Reader, rng: random.Random) -> int:
    async with open_opencode_stream(reader.listing, _path(rng)) as hearer:
        await reader.ask("GET", f"/session?{HERE}&limit=10")
        for _ in range(rng.choice([0, 1, 2, 10, 50])):
            assert await hearer.next() is not None
        _assert_in_order(hearer)
        return len(hearer.events)


def _assert_in_order(hearer: OpencodeStream) -> None:
    """Nothing is told of a session before that it was made."""
    known: set[str] = set()
    for event in hearer.events:
        told = event.get("payload", event)
        if told["type"] == "session.created":
            assert told["properties"]["sessionID"] not in known, told
        known.add(told["properties"].get("sessionID", ""))


async def _to_the_end(worker: Worker, reader: Reader, rng: random.Random) -> tuple[OpencodeMirror, int]:
    async with open_opencode_stream(reader.listing, _path(rng)) as hearer:
        seen = await reader.screen()
        await worker.tell("rest")
        last = await reader.ask("POST", f"/session?{HERE}")
        await _until_made(hearer, seen, last["id"])
        wanted = await reader.screen()
    _assert_in_order(hearer)
    assert seen.sessions == wanted.sessions
    assert seen.messages == wanted.messages
    assert seen.parts == wanted.parts
    return seen, len(hearer.events)


async def _until_made(hearer: OpencodeStream, seen: OpencodeMirror, session_id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while session_id not in seen.sessions:
            event = await hearer.next()
            assert event is not None
            seen.apply(event)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="event-streams-") as directory:
        cuts = cut_event_streams(
            Path(directory), cuts=options.cuts, restarts=options.restarts, seed=options.seed
        )
        sys.stdout.write(f"{asyncio.run(cuts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
