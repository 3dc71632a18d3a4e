"""Clients of the board that stall or are cut off: `python -m tests.support.load.board_stream`."""

import argparse
import asyncio
import random
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from msgspec import Struct

from tests.support.path import ROOT

PATIENCE = 60.0
"""So long something may take that must come."""
NARROW = 4096


class Worker:
    """A server that does what it is told."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    async def tell(self, order: str) -> float:
        """Done; returns the megabytes that it takes."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n".encode())
        return float(await self._line())

    async def _line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode().strip()
        assert line, "it ended"
        return line

    async def stop(self, how: int | None = None) -> None:
        """By a signal, or (None) in an orderly way."""
        assert self.process.stdin is not None
        if how is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
        assert code == (0 if how is None else -how), f"it ended with {code}"


@asynccontextmanager
async def open_worker(data: Path) -> AsyncIterator[Worker]:
    """Until the block ends; whatever is left of it then is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.load.stream_worker", str(data), stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    try:
        worker = Worker(process, "")
        worker.url = await worker._line()
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class News(Struct, frozen=True):
    type: str
    id: str
    data: dict[str, Any]


async def news(response: ClientResponse) -> AsyncIterator[News]:
    """What is whole of it."""
    rest = b""
    async for piece in response.content.iter_any():
        *frames, rest = (rest + piece).split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n"))
            if b"event" in fields:
                data = msgspec.json.decode(fields[b"data"], type=dict[str, Any])
                yield News(fields[b"event"].decode(), fields.get(b"id", b"").decode(), data)


class Dashboard:
    """Believes what it is told; begins afresh or goes on from where it was."""

    def __init__(self) -> None:
        self.tasks: dict[str, dict[str, Any]] = {}
        self.cursor = ""
        self.updates = 0

    def apply(self, each: News) -> None:
        self.updates += 1
        self.cursor = each.id or self.cursor
        match each.type:
            case "snapshot":
                assert "truncated" not in each.data
                self.tasks = {task["sessionID"]: task for task in each.data["tasks"]}
            case "task.removed":
                self.tasks.pop(each.data["sessionID"], None)
            case "reset" | "heartbeat":
                pass
            case _:
                assert each.type == "task.created" or each.data["sessionID"] in self.tasks, each
                self.tasks[each.data["sessionID"]] = each.data


@asynccontextmanager
async def open_board_stream(url: str, after: str = "") -> AsyncIterator[AsyncIterator[News]]:
    timeout = ClientTimeout(total=None, sock_read=PATIENCE)
    path = f"{url}/v1/events{f'?after={after}' if after else ''}"
    async with ClientSession(timeout=timeout) as http, http.get(path) as response:
        assert response.status == 200, await response.text()
        yield aiter(news(response))


async def snapshot(url: str) -> Dashboard:
    seen = Dashboard()
    async with open_board_stream(url) as heard:
        seen.apply(await anext(heard))
    return seen


async def stall(url: str) -> socket.socket:
    """Somebody who asks for the stream and never reads it."""
    where = urlsplit(url)
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
    deaf.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(deaf, (where.hostname, where.port))
    await loop.sock_sendall(deaf, f"GET /v1/events HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    return deaf


def unread(url: str) -> float:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sent = [row[4].split(":")[0] for row in rows if int(row[1].split(":")[1], 16) == urlsplit(url).port]
    return max(int(each, 16) for each in sent) / 1e6


class StallResult(Struct, frozen=True):
    """What a live listener heard beside so many that stalled, and what that cost the server."""

    stalled: int
    events: int
    seconds: float
    before: float
    """Megabytes, after a tenth of the events."""
    after: float
    kept: float
    """Megabytes that the system keeps for the one who has most to read."""


async def read_beside_stalled(directory: Path, *, stalled: int, events: int, together: int) -> StallResult:
    """Tasks are launched, end and are cleared, `together` at a time: the one who listens hears each of it."""
    rounds, begun, before, used = -(-events // (3 * together)), time.monotonic(), 0.0, 0.0
    async with open_worker(directory / "data") as worker, AsyncExitStack() as deaf:
        for _ in range(stalled):
            deaf.enter_context(await stall(worker.url))
        async with open_board_stream(worker.url) as heard:
            assert (await anext(heard)).type == "snapshot"
            for number in range(rounds):
                used = await _round(worker, heard, together)
                before = used if number == rounds // 10 else before
            kept = unread(worker.url)
        late = await snapshot(worker.url)
        assert late.tasks == {}
        await worker.stop()
    return StallResult(stalled, rounds * 3 * together, time.monotonic() - begun, before, used, kept)


async def _round(worker: Worker, heard: AsyncIterator[News], together: int) -> float:
    known: set[str] | None = None
    used = 0.0
    for order, kind in (
        (f"launch {together}", "task.created"),
        ("end", "task.completed"),
        ("clear", "task.removed"),
    ):
        async with asyncio.TaskGroup() as group:
            told = group.create_task(worker.tell(order))
            seen = await _each(heard, kind, together)
        used = told.result()
        assert known is None or seen == known, f"{kind}: {len(seen ^ known)} others"
        known = seen
    return used


async def _each(heard: AsyncIterator[News], kind: str, many: int) -> set[str]:
    """So many of a kind, each of another task, and nothing else but what moved meanwhile."""
    seen: set[str] = set()
    async with asyncio.timeout(PATIENCE):
        while len(seen) < many:
            each = await anext(heard)
            if each.type != "task.updated":
                assert each.type == kind, (each.type, kind)
                assert each.data["sessionID"] not in seen, "it was told twice"
                seen.add(each.data["sessionID"])
    return seen


class CutResult(Struct, frozen=True):
    """What a listener went through that was cut off again and again."""

    cuts: int
    restarts: int
    resumed: int
    heard: int
    tasks: int


async def cut_board_streams(directory: Path, *, cuts: int, restarts: int, seed: int) -> CutResult:
    """Agents work; the one who watches is cut off, and now and then the server is stopped or killed."""
    rng, seen, resumed = random.Random(seed), Dashboard(), 0
    for number in range(restarts + 1):
        async with open_worker(directory / "data") as worker:
            await worker.tell(f"work {rng.randrange(2**32)}")
            for _ in range(cuts // (restarts + 1)):
                goes_on = bool(seen.cursor) and rng.random() < 0.7
                resumed += goes_on
                await _listen_for_a_while(worker.url, seen, rng, after=seen.cursor if goes_on else "")
            if number < restarts:
                await _listen_to_the_end(worker, seen, signal.SIGKILL if number % 2 == 0 else None)
                continue
            await worker.tell("rest")
            await _catch_up(worker, seen)
            await worker.stop()
    return CutResult(
        cuts // (restarts + 1) * (restarts + 1), restarts, resumed, seen.updates, len(seen.tasks)
    )


async def _listen_for_a_while(url: str, seen: Dashboard, rng: random.Random, *, after: str) -> None:
    """A snapshot is taken whole, so that there is something to go on from."""
    left = rng.choice([1, 1, 2, 3, 5, 10, 30])
    async with open_board_stream(url, after) as heard:
        async for each in heard:
            seen.apply(each)
            left -= 1
            if left <= 0:
                return


async def _listen_to_the_end(worker: Worker, seen: Dashboard, how: int | None) -> None:
    """What is whole of it counts."""
    async with open_board_stream(worker.url, seen.cursor) as heard, asyncio.TaskGroup() as group:
        group.create_task(worker.stop(how))
        with suppress(ClientError):
            async for each in heard:
                seen.apply(each)


async def _catch_up(worker: Worker, seen: Dashboard) -> None:
    """From its own cursor, until it has heard of what was launched last; then it knows what anybody knows."""
    await worker.tell("launch 1")
    wanted = await snapshot(worker.url)
    async with open_board_stream(worker.url, seen.cursor) as heard, asyncio.timeout(PATIENCE):
        while seen.tasks != wanted.tasks:
            seen.apply(await anext(heard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stalled", type=int, default=100)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--restarts", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streams-") as directory:
        if options.events:
            (folder := Path(directory) / "stalled").mkdir()
            work = read_beside_stalled(folder, stalled=options.stalled, events=options.events, together=2_000)
            sys.stdout.write(f"{asyncio.run(work)}\n")
        if options.cuts:
            (folder := Path(directory) / "cut").mkdir()
            cuts = cut_board_streams(folder, cuts=options.cuts, restarts=options.restarts, seed=options.seed)
            sys.stdout.write(f"{asyncio.run(cuts)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
