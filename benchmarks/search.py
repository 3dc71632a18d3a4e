"""A project of 50,000 files, searched over HTTP: a real `asyncagents serve`, asked twice each time."""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import ClientSession
from msgspec import Struct

from benchmarks.machine import measure as machine
from benchmarks.report import Figure, table

MANY = 50_000
IGNORED = 10_000
LARGE = 20
WORDS = tuple(
    f"{first}{last}" for first in ("load", "read", "send", "make") for last in ("Row", "File", "Key")
)
ASKED = {
    "/find of a rare word": "/find?pattern=needle_in_the_hay",
    "/find of letters that many lines have": "/find?pattern=return",
    "/find of a class of letters": "/find?pattern=[0-9]{12}z",
    "/find of one word or another": "/find?pattern=(zebra|quagga)_[a-z]%2B",
    "/find/file": "/find/file?query=mod77",
    "/find/file, next letter": "/find/file?query=mod771",
}


class Took(Struct, frozen=True):
    """Seconds; `cpu`: of the server and of what it started."""

    wall: float
    cpu: float


def grow(project: Path, count: int = MANY) -> None:
    """Nested folders, a folder that is ignored, some large files, all of them in a repository of git."""
    chance = random.Random(7)
    lines = [f"    {chance.choice(WORDS)}({number}, '{number * 7919:x}')" for number in range(500)]
    for number in range(count):  # folder by folder, as git writes them
        at = number // 10
        folder = project / f"pkg{at // 125}" / f"area{at // 5 % 25}" / f"part{at % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        body = "\n".join(chance.choices(lines, k=chance.randint(5, 120)))
        (folder / f"mod{number}.py").write_text(f"def run{number}():\n{body}\n    return {number}\n")
    for number in range(IGNORED):
        folder = project / "node_modules" / f"lib{number // 50}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"index{number}.js").write_text("module.exports = needle_in_the_hay\n")
    for number in range(LARGE):
        (project / f"data{number}.csv").write_text("\n".join(chance.choices(lines, k=60_000)))
    (project / "pkg7" / "area7" / "needle.py").write_text("needle_in_the_hay = 1\n")
    (project / ".gitignore").write_text("node_modules/\n*.pyc\n__pycache__/\n/dist\n*.log\n.env\n!keep.log\n")
    _git(project, "init", "--quiet")
    _git(project, "add", "--all")


def _git(project: Path, *words: str) -> None:
    subprocess.run(("git", *words), cwd=project, check=True, capture_output=True)


async def measure(directory: Path) -> list[Figure]:
    project = directory / "project"
    await asyncio.to_thread(grow, project)
    figures: list[Figure] = []
    async with serving(directory / "data", project) as (http, process):
        for name, path in ASKED.items():
            first = await asked(http, path, process.pid)
            again = await asked(http, path, process.pid)
            figures += [
                Figure(f"{name}, {MANY:,} files: first", first.wall * 1e3, "ms", "≤ 2,000"),
                Figure("… CPU", first.cpu * 1e3, "ms"),
                Figure("… again", again.wall * 1e3, "ms", "≤ 2,000"),
                Figure("… CPU", again.cpu * 1e3, "ms"),
            ]
    for path in ("/provider", "/config/providers"):
        async with serving(directory / "data", project) as (http, process):
            took = await asked(http, path, process.pid)
            figures += [
                Figure(f"{path}, the first time", took.wall * 1e3, "ms", "≤ 200"),
                Figure("… CPU", took.cpu * 1e3, "ms"),
            ]
    return figures


@asynccontextmanager
async def serving(data: Path, project: Path) -> AsyncIterator[tuple[ClientSession, Process]]:
    await asyncio.to_thread(data.mkdir, exist_ok=True)
    own = {"ASYNCAGENTS_DATA_DIR": str(data), "HOME": str(data), "OPENAI_API_KEY": "none"}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("asyncagents")), "serve", "--port", "0",
        stdout=PIPE, stderr=DEVNULL, cwd=project,
        env=os.environ | own,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().split()[-1]
        token = msgspec.json.decode(await asyncio.to_thread((data / "server.json").read_bytes))["token"]
        async with ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as http:
            async with http.get("/v1/health") as health:
                assert (await health.json())["status"] == "ok"
            yield http, process
    finally:
        process.terminate()
        await process.wait()


async def asked(http: ClientSession, path: str, pid: int) -> Took:
    begun, cpu = time.perf_counter(), _cpu(pid)
    async with http.get(path) as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()
    return Took(time.perf_counter() - begun, _cpu(pid) - cpu)


def _cpu(pid: int) -> float:
    """Seconds so far, with those of processes that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        print(table(machine() + asyncio.run(measure(Path(directory)))))


if __name__ == "__main__":
    main()
