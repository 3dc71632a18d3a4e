"""A server whose agents are foreign programs: their tasks, asks, processes and deaths."""

import json
import os
import signal
import sqlite3
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeAlias

from asyncagents.client import Client, open_client
from asyncagents.domain.call.ask import PermissionRequest
from asyncagents.domain.conversation.part import Part, StepStartPart, UnknownPart
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.remote.acp.opening import load_text
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.peer.foreign import PROGRAMS, ForeignProgram
from tests.peer.provider import open_servants
from tests.support.acp.stage import HOLD, NOTE
from tests.support.delegation import find_notices, visible_texts
from tests.support.process.command_line import DESK_KEY, Desk
from tests.support.wait import wait_until

PATIENCE = 180.0
LOOK = 0.05
MARK = "FOREIGN_MARK"
"""A variable of the server that only the foreign programs and what they start get too."""
RULES = {
    "*": "allow",
    "external_agent": "allow",
    "bash": {"*": "allow", "./note asked*": "ask"},
    "external_directory": "ask",
}
CONTINUE = load_text("continue")


def launching(*prompts: str) -> Reply:
    """The parent launches the foreign agent in the background; a prompt is the name of its task."""
    args = [{"description": each, "prompt": each, "agent": "foreign"} for each in prompts]
    return Reply(text="", tools=tuple(ToolUse(name="async_task", args=each) for each in args))


class ForeignStage:
    """One server after the other on the same data, with an agent named `foreign`."""

    def __init__(self, desk: Desk, provider: Provider, program: ForeignProgram, client: Client) -> None:
        self.desk = desk
        self.provider = provider
        self.program = program
        self.client = client
        self.errors = desk.home / "server-errors"
        self.variables = {**program.variables, MARK: str(desk.home)}
        self._server: Process | None = None
        backend = {"acp": program.command, "environment": sorted(self.variables)}
        agent = {"description": f"Runs {program.name}.", "backend": backend}
        desk.configure(agent={"foreign": agent}, permission=RULES)
        for name, text in (("note", NOTE), ("hold", HOLD)):
            (desk.project / name).write_text(text)
            (desk.project / name).chmod(0o755)

    @property
    def server(self) -> Process:
        assert self._server is not None, "started"
        return self._server

    async def start_server(self) -> None:
        with self.errors.open("ab") as errors:
            self._server = await self.desk.start(
                "serve", "--port", "0", stdout=DEVNULL, err=errors.fileno(), env=self.variables
            )

    async def examine(self) -> str:
        """Let the doctor start the program, and return what it says; OpenCode then makes its database.

        Programs that OpenCode starts at the same time on a new machine collide when they make it.
        """
        ran = await self.desk.run("doctor", "--json", env=self.variables)
        (check,) = [each for each in ran.json["checks"] if each["name"] == "agent foreign"]
        assert check["level"] == "ok", check
        return str(check["text"])

    async def kill_server(self) -> None:
        self.server.kill()
        await self.server.wait()

    def kill_program(self) -> None:
        """Kill the program that was started first, and none of what it started."""
        os.kill(self.processes()[0], signal.SIGKILL)

    async def end(self) -> None:
        """End the server and wait until nothing that it started is left."""
        if self._server is not None and self._server.returncode is None:
            self.server.send_signal(signal.SIGTERM)
            await self.server.wait()
        await self.wait_for_no_process()

    async def begin(self, prompt: str = "go") -> SessionId:
        session, _ = await self.client.begin(prompt, directory=self.desk.project)
        return session.id

    async def tasks(self, parent: SessionId) -> tuple[BackgroundTask, ...]:
        return await self.client.tasks.list(parent)

    async def wait_for_task(self, parent: SessionId) -> BackgroundTask:
        """Wait until the only task has been launched."""
        (task,) = await wait_until(lambda: self.tasks(parent), seconds=PATIENCE, pause=LOOK)
        return task

    async def wait_for_ends(self, parent: SessionId, count: int = 1) -> tuple[BackgroundTask, ...]:
        """Wait until all tasks have ended and the parent, which was notified, rests."""

        async def ended() -> tuple[BackgroundTask, ...] | None:
            tasks = await self.tasks(parent)
            over = [each for each in tasks if each.completed_at is not None and each.pending_resume is None]
            return tasks if len(over) == count and not await self.client.at_work(parent) else None

        return await wait_until(ended, seconds=PATIENCE, pause=LOOK)

    async def wait_for_ask(self) -> PermissionRequest:
        """Wait for an ask that is open."""
        (ask, *_) = await wait_until(self.asks, seconds=PATIENCE, pause=LOOK)
        return ask

    async def asks(self) -> list[PermissionRequest]:
        waiting = await self.client.asks()
        return [each.call.open.ask for each in waiting if each.call.open and each.call.open.ask]

    async def answer_all(self, reply: str = "once") -> int:
        """Answer each open ask, and return how many there were."""
        asks = await self.asks()
        for ask in asks:
            await self.client.answer(ask.id, reply)
        return len(asks)

    async def notices(self, parent: SessionId) -> list[str]:
        """What the parent was notified of: a line for each end of a task."""
        found = find_notices(await self.client.messages(parent))
        return [text for entry in found for text in visible_texts(entry)]

    async def answer_parts(self, session_id: SessionId) -> list[Part | UnknownPart]:
        """The parts of the last answer, without the mark of its beginning."""
        entry = (await self.client.messages(session_id))[-1]
        return [part for part in entry.parts if not isinstance(part, StepStartPart)]

    def last_request_for(self, prompt: str) -> str:
        """What was sent to the model in the last request with a prompt of its user."""
        sent = (json.dumps(each.body["messages"]) for each in reversed(self.provider.requests))
        return next(each for each in sent if f'"{prompt}"' in each)

    def external_sessions(self) -> list[tuple[str, int]]:
        """The sessions of the program that are stored: its own id, and how many prompts were sent."""
        file = self.desk.data / "asyncagents.db"
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=30)) as db:
            rows = [json.loads(row[0]) for row in db.execute("SELECT body FROM external_session")]
        return [(row["external_id"], row["prompts"]) for row in rows]

    def let_go(self) -> None:
        """Let the commands go on that are held."""
        (self.desk.project / "go").touch()

    def lines_run(self) -> list[str]:
        ran = self.desk.project / "ran"
        return ran.read_text().splitlines() if ran.exists() else []

    def processes(self) -> list[int]:
        """The processes of foreign programs, oldest first, with all that they started."""
        mark = f"{MARK}={self.desk.home}".encode()
        ours = self._server.pid if self._server is not None else 0
        found = [_start_time(pid) for pid in _all_pids() if pid != ours and mark in _environment(pid)]
        return [pid for started, pid in sorted(found) if started]  # without one that has just ended

    def has_process(self, word: str) -> bool:
        return any(word.encode() in _command_line(pid) for pid in self.processes())

    async def wait_for_no_process(self) -> None:
        try:
            await wait_until(lambda: not self.processes(), seconds=PATIENCE, pause=LOOK)
        except TimeoutError:
            left = [(pid, _command_line(pid)) for pid in self.processes()]
            raise AssertionError(f"processes of {self.program.name} that are left: {left}") from None


def _all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def _environment(pid: int) -> Sequence[bytes]:
    return _read(pid, "environ").split(b"\0")


def _command_line(pid: int) -> bytes:
    return _read(pid, "cmdline").replace(b"\0", b" ")


def _start_time(pid: int) -> tuple[int, int]:
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return (int(fields[19]) if fields else 0, pid)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""


BuildScript: TypeAlias = Callable[[ForeignProgram], Script]


@asynccontextmanager
async def open_foreign_stage(
    root: Path, name: str, script: BuildScript, *, serve: bool = True
) -> AsyncIterator[ForeignStage]:
    """Open a stage with a program; `script`: what the models say."""
    replies: dict[str, Sequence[Reply]] = {}
    async with open_servants(replies, key=DESK_KEY, remember=True) as provider:
        desk = Desk(root, provider.url)
        program = await PROGRAMS[name](desk.home, provider.url)
        replies |= script(program)
        async with open_client(data=desk.data, patience=PATIENCE) as client:
            stage = ForeignStage(desk, provider, program, client)
            if serve:
                await stage.start_server()
            try:
                yield stage
            finally:
                await stage.end()
