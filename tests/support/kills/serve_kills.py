"""`asyncagents serve` under load over HTTP, killed often: `python -m tests.support.kills.serve_kills`."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from asyncagents.server.discovery import find_server
from asyncagents.testing.provider import Provider
from tests.simulation.stage import Violation
from tests.support.kills.program import Summary, run_siege
from tests.support.kills.serve_client import Client, Outside, check
from tests.support.process.command_line import Desk, open_desk
from tests.support.wait import wait_until

CLIENTS = 6
PATIENCE_SECONDS = 60
START_SECONDS = 30
MOMENT_SECONDS = 2.0
TOOL = """
from asyncagents import Pending, async_tool

@async_tool(seconds=3600)
async def job(n: int) -> Pending:
    '''Do something that takes its time.'''
    return Pending(note=f"job {n}")
"""


class Siege:
    """One server after the other on the same data, and whoever kills them."""

    def __init__(self, desk: Desk, provider: Provider, outside: Outside, rng: random.Random) -> None:
        self.desk = desk
        self._provider = provider
        self.kills = 0
        self.outside = outside
        self.orphans = 0
        self._rng = rng
        self._process: Process | None = None
        self._said = desk.home / "said"

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        with self._said.open("wb") as said:
            self._process = await self.desk.start("serve", "--port", "0", stdout=DEVNULL, err=said.fileno())

    async def strike(self) -> None:
        """At some moment of the clients' work, or of its own start."""
        if self._rng.random() < 0.85:
            await self._moment()
        await asyncio.sleep(self._rng.choice([0, 0.001, 0.01, 0.1]) * self._rng.random())
        children = descendants(self.process.pid)
        self.process.kill()
        await self.process.wait()
        self.kills += 1
        self.orphans += len(children)
        await until_dead(children)
        self._check_silent()
        await self.start()
        await self._breathe()

    async def _moment(self) -> None:
        """So many answers further; then while the model is asked, while a process works, or anywhen."""
        seen, wanted = self.outside.answers, self._rng.choice([20, 40, 80])
        await self.until(lambda: self.outside.answers >= seen + wanted, START_SECONDS)
        match self._rng.choice(["asks", "works", "works", "anywhen"]):
            case "asks":
                await self.until(lambda: self._provider.active > 0, MOMENT_SECONDS)
            case "works":
                await self.until(lambda: bool(descendants(self.process.pid)), MOMENT_SECONDS)
            case _:
                pass

    async def until(self, there: Callable[[], bool], seconds: float) -> None:
        with suppress(TimeoutError):
            await wait_until(there, seconds=seconds)

    async def _breathe(self) -> None:
        """Who is cut off three times before it gets anywhere is given up, and rightly: twice is enough."""
        await wait_until(lambda: asyncio.to_thread(self._has_breath), seconds=PATIENCE_SECONDS)

    def _has_breath(self) -> bool:
        with closing(sqlite3.connect(self.desk.data / "asyncagents.db", timeout=30)) as db:
            row = db.execute("SELECT 1 FROM session WHERE state <> 'idle' AND claims > 1").fetchone()
        return row is None

    async def retire(self) -> None:
        """An orderly end: nothing of it is left."""
        children = descendants(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            code = await self.process.wait()
        await until_dead(children)
        said = self._said.read_text()
        if code or said != "stopping\n" or (self.desk.data / "server.json").exists():
            raise Violation(f"the server was told to stop, ended with {code} and said {said!r}")

    def _check_silent(self) -> None:
        if said := self._said.read_text():
            raise Violation(f"a server said:\n{said}")

    async def end(self) -> None:
        """Whatever happened: no process stays."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def besiege(directory: Path, *, kills: int, seed: int) -> Summary:
    """So many kills, then peace and the checks; raises `Violation`."""
    began, outside = time.monotonic(), Outside()
    async with open_desk(directory) as (desk, provider):
        desk.configure(permission={"*": "allow"})
        tool = desk.project / ".asyncagents/tools/job.py"
        tool.parent.mkdir(parents=True)
        tool.write_text(TOOL)
        siege = Siege(desk, provider, outside, random.Random(f"serve:{seed}"))
        await siege.start()
        try:
            await siege.until(lambda: find_server(desk.data) is not None, START_SECONDS)
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    client = Client(desk.data, outside, random.Random(f"client:{seed}:{number}"), number)
                    group.create_task(client.live())
                while siege.kills < kills or not outside.has_more_than(kills):
                    await siege.strike()
                outside.over.set()
            counts = await check(desk.data, outside)
            await siege.retire()
        finally:
            await siege.end()
    counts += Counter({"model requests": provider.asked, "broken off requests": provider.disconnects})
    counts["processes that died with their server"] = siege.orphans
    return Summary(siege.kills, time.monotonic() - began, dict(counts))


def descendants(pid: int) -> dict[int, str]:
    """And when each was started: a number is given again."""
    found: dict[int, str] = {}
    parents = {int(entry): _stat(int(entry)) for entry in os.listdir("/proc") if entry.isdecimal()}
    ahead = [pid]
    while ahead:
        parent = ahead.pop()
        for child, stat in parents.items():
            if stat is not None and int(stat[1]) == parent and child not in found:
                found[child] = stat[19]
                ahead.append(child)
    return found


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


async def until_dead(children: dict[int, str]) -> None:
    def living() -> list[int]:
        stats = {pid: _stat(pid) for pid in children}
        return [pid for pid, stat in stats.items() if stat and stat[19] == children[pid] and stat[0] != "Z"]

    try:
        await wait_until(lambda: not living(), seconds=PATIENCE_SECONDS / 6)
    except TimeoutError:
        raise Violation(f"processes that outlived their server: {living()}") from None


if __name__ == "__main__":
    sys.exit(run_siege(besiege, "kills of a server under load"))
