"""The status API over a long history of tasks: a real `asyncagents serve`, asked over HTTP."""

import asyncio
import os
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

from aiohttp import ClientSession
from msgspec import Struct

from benchmarks.board import FEW, MANY, fill
from benchmarks.report import Figure

TRIES = 300
PATHS = {
    "page": ("/v1/tasks", "≤ 10"),
    "page of a status": ("/v1/tasks?status=error", "≤ 10"),
    "page of an agent": ("/v1/tasks?agent=explore&limit=200", ""),
    "page of a word that few have": ("/v1/tasks?search=96th", ""),
    "last page": ("/v1/tasks?offset={last}", "≤ 10"),
    "stats": ("/v1/stats", "≤ 10"),
    "health": ("/v1/health", "≤ 10"),
}


class Took(Struct, frozen=True):
    """Milliseconds of one question, asked many times; `cpu`: of the server's threads together."""

    p50: float
    p99: float
    cpu: float


async def measure(directory: Path, *, full: bool = False) -> list[Figure]:
    count = MANY if full else FEW
    data = await fill(directory / "status", count)
    process, url, ready = await _started(data)
    try:
        async with ClientSession(url) as http:
            light = _memory(process.pid)
            paths = {name: path.format(last=count - 50) for name, (path, _) in PATHS.items()}
            took = {name: await _asked(http, path, process.pid) for name, path in paths.items()}
            size, first = await _snapshot(http)
            heavy = _memory(process.pid)
    finally:
        process.terminate()
        await process.wait()
    return [
        *_figures(count, took),
        Figure("… bytes of a snapshot", size, "", "bounded"),
        Figure("… until it was there", first, "ms"),
        Figure("… from start to ready", ready, "s", "≤ 1"),
        Figure("… memory when ready", light, "MB"),
        Figure("… memory after all this", heavy, "MB", "≤ 120"),
    ]


def _figures(count: int, took: dict[str, Took]) -> list[Figure]:
    return [
        figure
        for name, each in took.items()
        for figure in (
            Figure(f"HTTP with {count:,} tasks in history: {name}, CPU", each.cpu, "ms CPU"),
            Figure("… p50", each.p50, "ms"),
            Figure("… p99", each.p99, "ms", PATHS[name][1]),
        )
    ]


async def _started(data: Path) -> tuple[Process, str, float]:
    """Seconds until its health is asked and told."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("asyncagents")), "serve", "--port", "0",
        stdout=PIPE, stderr=DEVNULL, cwd=data,
        env=os.environ | {"ASYNCAGENTS_DATA_DIR": str(data), "HOME": str(data), "OPENAI_API_KEY": "none"},
    )  # fmt: skip
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().split()[-1]
    async with ClientSession(url) as http, http.get("/v1/health") as health:
        assert (await health.json())["status"] == "ok"
    return process, url, time.perf_counter() - begun


async def _asked(http: ClientSession, path: str, pid: int) -> Took:
    took, cpu = [], _cpu(pid)
    for _ in range(TRIES):
        begun = time.perf_counter()
        async with http.get(path) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        took.append((time.perf_counter() - begun) * 1e3)
    return Took(statistics.median(took), sorted(took)[int(TRIES * 0.99)], (_cpu(pid) - cpu) / TRIES)


async def _snapshot(http: ClientSession) -> tuple[int, float]:
    """Bytes, and ms until all of them were there."""
    begun, frame = time.perf_counter(), b""
    async with http.get("/v1/events") as stream:
        while b"event: snapshot" not in frame or not frame.endswith(b"\n\n"):
            frame += await stream.content.readany()
    return len(frame), (time.perf_counter() - begun) * 1e3


def _cpu(pid: int) -> float:
    """Milliseconds so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
