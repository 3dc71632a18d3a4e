"""Prompts of one project beside hostile tools of another: `python -m tests.support.load.hostile_project`.

One server, two projects. A person prompts in a quiet one, and `/v1/health` is asked all along; first nothing
else happens, then an agent of a hostile project makes so many calls at once, again and again. Both figures
come from one run, of one process on one machine.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from msgspec import Struct

from tests.support.process.command_line import Desk, open_desk
from tests.support.process.server import DeskServer, open_desk_server
from tests.support.wait import wait_until

RULES = 2_000
NAMES = 2_000
BIG_BYTES = 10 * 1024 * 1024
"""As large as a file may be that is read at once."""
HEALTH_SECONDS = 0.02
ASK_SECONDS = 120.0


class Figures(Struct, frozen=True, kw_only=True):
    """Seconds, in the order they were measured."""

    prompts: tuple[float, ...]
    health: tuple[float, ...]


class Result(Struct, frozen=True, kw_only=True):
    quiet: Figures
    attacked: Figures
    calls: int
    """Hostile ones that were made while the prompts were measured."""


def make_hostile(project: Path, *, rules: int = RULES, names: int = NAMES) -> None:
    """Fill a project with what makes tools slow: rules, names, lines and a file without end."""
    (project / "many").mkdir()
    for number in range(names):
        (project / "many" / f"{'abc' * 70}{number}").touch()
    lines = (f"*a*b*c*a*b*c*a*b*c*x{number}*" for number in range(rules))
    (project / ".gitignore").write_text("\n".join(lines))
    (project / "bomb.txt").write_text("a" * 5_000 + "!\n")
    (project / "lines.txt").write_bytes(b"\n" * BIG_BYTES)


def hostile_calls(number: int) -> list[dict[str, Any]]:
    """So many calls of one message, no two of them the same."""
    kinds = (
        lambda at: ("list", {"path": ".", "ignore": [f"x{at}"]}),
        lambda at: ("glob", {"pattern": f"**/*{at}*"}),
        lambda at: ("grep", {"pattern": f"(a+)+{at}$", "path": "bomb.txt"}),
        lambda at: ("read", {"filePath": "lines.txt", "offset": BIG_BYTES - 10 - at}),
        lambda at: ("read", {"filePath": f"many/{'abc' * 60}{at}"}),
        lambda at: ("edit", {"filePath": "lines.txt", "oldString": f"x{at}", "newString": "y"}),
        lambda at: ("bash", {"command": f"exit 0; echo {at}; " + "echo a | cat; " * 400}),
    )
    calls = (kinds[at % len(kinds)](at) for at in range(number))
    return [{"name": name, "args": args} for name, args in calls]


class Person:
    """Talks to one server."""

    def __init__(self, server: DeskServer, token: str, http: ClientSession) -> None:
        self._url = server.url
        self._headers = {"authorization": f"Bearer {token}"}
        self._http = http

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        async with self._http.request(
            method, f"{self._url}{path}", json=body, headers=self._headers
        ) as response:
            content = await response.read()
            assert response.status in {200, 204}, f"{method} {path}: {response.status} {content[:300]!r}"
            return json.loads(content) if content else None

    async def session(self, directory: Path) -> str:
        made = await self.ask("POST", f"/session?directory={directory}", {"title": "load"})
        return str(made["id"])

    async def prompt(self, session: str, text: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Wait for the answer."""
        body = _body(text, steps)
        answer = await self.ask("POST", f"/session/{session}/message", body)
        assert isinstance(answer, dict)
        return answer

    async def send(self, session: str, text: str, steps: list[dict[str, Any]]) -> None:
        await self.ask("POST", f"/session/{session}/prompt_async", _body(text, steps))


def _body(text: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": f"{text} [[{json.dumps({'steps': steps})}]]"}]}


@asynccontextmanager
async def open_stage(directory: Path) -> AsyncIterator[tuple[Desk, DeskServer, Person, Path]]:
    """A server, someone who talks to it, and the quiet project; the hostile one is the desk's own."""
    async with open_desk(directory) as (desk, _):
        desk.configure(permission={"*": "allow"})
        quiet = directory / "quiet"
        quiet.mkdir()
        (quiet / "a.txt").write_text("hello\n")
        (quiet / "asyncagents.json").write_text((desk.project / "asyncagents.json").read_text())
        await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(quiet)], check=True)
        async with (
            open_desk_server(desk) as server,
            ClientSession(timeout=ClientTimeout(total=ASK_SECONDS)) as http,
        ):
            token = (desk.data / "token").read_text().strip()
            yield desk, server, Person(server, token, http), quiet


class Load:
    def __init__(self, person: Person, desk: Desk, quiet: Path, calls: int) -> None:
        self._person = person
        self._desk = desk
        self._quiet = quiet
        self._calls = calls
        self._numbers = count()
        self.hostile = 0

    async def measure(self, prompts: int) -> Figures:
        """So many prompts one after another, and the health all along."""
        over = asyncio.Event()
        took: list[float] = []
        session = await self._person.session(self._quiet)
        async with asyncio.TaskGroup() as group:
            health = group.create_task(self._watch_health(over))
            for _ in range(prompts):
                began = time.monotonic()
                number = next(self._numbers)
                steps: list[dict[str, Any]] = [
                    {"text": "", "tools": [{"name": "read", "args": {"filePath": "a.txt"}}]},
                    {"text": f"answer {number}"},
                ]
                answer = await self._person.prompt(session, f"prompt {number}", steps)
                assert f"answer {number}" in json.dumps(answer), answer
                took.append(time.monotonic() - began)
                if number % 5 == 4:  # a long conversation is another matter
                    session = await self._person.session(self._quiet)
            over.set()
        return Figures(prompts=tuple(took), health=health.result())

    async def _watch_health(self, over: asyncio.Event) -> tuple[float, ...]:
        took: list[float] = []
        while not over.is_set():
            began = time.monotonic()
            await self._person.ask("GET", "/v1/health")
            took.append(time.monotonic() - began)
            await asyncio.sleep(HEALTH_SECONDS)
        return tuple(took)

    async def attack(self, prompts: int) -> Figures:
        """Measure while the hostile project is at work all the time."""
        begun = asyncio.Event()
        attacking = asyncio.ensure_future(self._go_on(begun))
        try:
            await begun.wait()
            return await self.measure(prompts)
        finally:
            attacking.cancel()
            await asyncio.wait({attacking})

    async def _go_on(self, begun: asyncio.Event) -> None:
        while True:
            session = await self._person.session(self._desk.project)
            steps: list[dict[str, Any]] = [
                {"text": "", "tools": hostile_calls(self._calls)},
                {"text": "done"},
            ]
            await self._person.send(session, f"attack {next(self._numbers)}", steps)
            self.hostile += self._calls
            begun.set()
            try:
                await wait_until(partial(self._rests, session), seconds=None, pause=0.1)
            finally:
                await self._person.ask("POST", f"/session/{session}/abort")

    async def _rests(self, session: str) -> bool:
        return session not in await self._person.ask("GET", "/session/status")


async def run(directory: Path, *, calls: int, prompts: int, names: int = NAMES) -> Result:
    async with open_stage(directory) as (desk, server, person, quiet):
        make_hostile(desk.project, names=names)
        load = Load(person, desk, quiet, calls)
        await load.measure(5)  # what only the first ones cost
        calm = await load.measure(prompts)
        attacked = await load.attack(prompts)
        await server.end()
    return Result(quiet=calm, attacked=attacked, calls=load.hostile)


def percentile(values: tuple[float, ...], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def _line(name: str, figures: tuple[float, ...]) -> str:
    at = [1000 * percentile(figures, part) for part in (0.5, 0.95, 0.99)]
    return f"{name:28} {len(figures):6d}  " + "  ".join(f"{each:8.1f}" for each in (*at, 1000 * max(figures)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=40, help="hostile calls at once")
    parser.add_argument("--prompts", type=int, default=200, help="prompts measured, quiet and attacked")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(run(Path(folder), calls=given.calls, prompts=given.prompts))
    sys.stdout.write(f"{'ms':28} {'count':>6}  {'p50':>8}  {'p95':>8}  {'p99':>8}  {'most':>8}\n")
    for name, figures in (("quiet", result.quiet), ("attacked", result.attacked)):
        sys.stdout.write(_line(f"prompt, {name}", figures.prompts) + "\n")
        sys.stdout.write(_line(f"/v1/health, {name}", figures.health) + "\n")
    ratio = percentile(result.attacked.prompts, 0.99) / percentile(result.quiet.prompts, 0.99)
    sys.stdout.write(f"hostile calls: {result.calls}; prompt p99 attacked / quiet: {ratio:.2f}\n")


if __name__ == "__main__":
    main()
