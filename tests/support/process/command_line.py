"""A desk to use the command line at: a home, a project, a provider over real HTTP, real processes."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.testing.provider import Provider, Reply, Script, open_provider, openai_bytes
from tests.support.process.fork_server import ForkedProcess, ForkOrder, fork_process, run_forked

PROGRAM = str(Path(sys.executable).with_name("asyncagents"))
DESK_KEY = "sk-of-the-desk"
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
PROCESS_PATIENCE = 60.0
"""So long a test waits for what must come; a healthy run never does."""


class CommandResult(Struct, frozen=True):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    def __init__(self, root: Path, url: str) -> None:
        self.home, self.project, self.data = root / "home", root / "project", root / "data"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        self._url = url
        self.configure()

    def configure(self, **more: Any) -> None:
        local = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self._url}/v1", "apiKey": "{env:DESK_KEY}"},
            "models": {
                "m": {"limit": {"context": 8400, "output": 1000}, "cost": {"input": 3, "output": 15}},
                "other": {},
            },
        }
        config = {"model": "local/m", "provider": {"local": local}, **more}
        (self.project / "asyncagents.json").write_text(json.dumps(config))

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Nothing of the caller's own keys, terminal or configuration; servers take any free port."""
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
            if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "ASYNCAGENTS_DATA_DIR": str(self.data),
            "ASYNCAGENTS_TRUST": "1",
            "ASYNCAGENTS_API_PORT": "0",
            "DESK_KEY": DESK_KEY,
            **more,
        }

    async def start(
        self,
        *words: str,
        stdin: int = DEVNULL,
        stdout: int = PIPE,
        err: int = PIPE,
        env: Mapping[str, str] = NO_VARIABLES,
        limit: Callable[[], None] | None = None,
    ) -> Process:
        return await asyncio.create_subprocess_exec(
            PROGRAM,
            *words,
            stdin=stdin,
            stdout=stdout,
            stderr=err,
            cwd=self.project,
            env=self.environment(env),
            preexec_fn=limit,
        )

    def order(self, *words: str, env: Mapping[str, str], terminal: bool = False) -> ForkOrder:
        return ForkOrder(words=words, cwd=str(self.project), env=self.environment(env), terminal=terminal)

    async def run(
        self, *words: str, stdin: str | None = None, env: Mapping[str, str] = NO_VARIABLES
    ) -> CommandResult:
        """To its end; with nothing to read it is forked, which is cheaper than a start."""
        if stdin is not None:
            return await wait_for_exit(await self.start(*words, stdin=PIPE, env=env), stdin=stdin)
        async with asyncio.timeout(PROCESS_PATIENCE):
            code, out, err = await run_forked(self.order(*words, env=env))
        return CommandResult(code, out.decode(), err.decode())

    @asynccontextmanager
    async def look(self) -> AsyncIterator[Runtime]:
        """What is stored, seen by a runtime that serves nobody."""
        async with open_runtime(self.data, model=ScriptedModel({}), serve=False) as runtime:
            yield runtime


async def wait_for_exit(process: Process, *, stdin: str | None = None) -> CommandResult:
    async with asyncio.timeout(PROCESS_PATIENCE):
        out, err = await process.communicate(None if stdin is None else stdin.encode())
    assert process.returncode is not None
    return CommandResult(process.returncode, (out or b"").decode(), err.decode())


@asynccontextmanager
async def open_desk(
    root: Path, script: Script | None = None, **more: Any
) -> AsyncIterator[tuple[Desk, Provider]]:
    async with open_provider(script, key=DESK_KEY, **more) as provider:
        yield Desk(root, provider.url), provider


async def read_until(process: Process, text: str) -> str:
    """Until its stdout has this text; returns all that was there by then."""
    assert process.stdout is not None
    seen = b""
    async with asyncio.timeout(PROCESS_PATIENCE):
        while text.encode() not in seen:
            more = await process.stdout.read(4096)
            assert more, f"it ended after {seen!r}"
            seen += more
    return seen.decode()


class Terminal:
    """A process on a terminal of its own; what it writes is kept, keys can be pressed."""

    def __init__(self, process: Process | ForkedProcess, master: int) -> None:
        self.process = process
        self._master = master
        self._seen = b""
        self._more = asyncio.Event()
        self._closed = False
        self._answered = 0
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            piece = b""
        if not piece:
            self._closed = True
            asyncio.get_running_loop().remove_reader(self._master)
        self._seen += piece
        self._more.set()

    @property
    def text(self) -> str:
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    async def until(self, text: str) -> None:
        async with asyncio.timeout(PROCESS_PATIENCE):
            while text not in self.text:
                assert not self._closed, f"it ended with {self.text!r}"
                self._more.clear()
                await self._more.wait()

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    async def answer(self, line: str, *, to: str) -> None:
        """Type a line behind the next question that ends like this; what was asked before does not count."""
        async with asyncio.timeout(PROCESS_PATIENCE):
            while to not in self.text[self._answered :]:
                assert not self._closed, f"it ended with {self.text!r}"
                self._more.clear()
                await self._more.wait()
        self._answered = len(self.text)
        self.press(f"{line}\n".encode())

    async def end(self) -> int:
        async with asyncio.timeout(PROCESS_PATIENCE):
            code = await self.process.wait()
            while not self._closed:
                self._more.clear()
                await self._more.wait()
        return code


CTRL_C = b"\x03"


@asynccontextmanager
async def open_terminal(
    desk: Desk,
    *words: str,
    env: Mapping[str, str] = NO_VARIABLES,
    started: bool = False,
    typed: bytes = b"",
) -> AsyncIterator[Terminal]:
    """Forked; or `started`, where it matters that its life began as that of a program.

    `typed`: keys that are pressed before it begins.
    """
    master, slave = os.openpty()
    order = desk.order(*words, env={"TERM": "xterm", "COLUMNS": "200", **env}, terminal=True)
    with closing(os.fdopen(master, "rb", buffering=0)):
        with closing(os.fdopen(slave, "rb", buffering=0)):
            os.write(master, typed)
            process = await (_start(order, slave) if started else fork_process(order, slave, slave, slave))
        terminal = Terminal(process, master)
        try:
            yield terminal
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            asyncio.get_running_loop().remove_reader(master)


async def _start(order: ForkOrder, terminal: int) -> Process:
    return await asyncio.create_subprocess_exec(
        *(PROGRAM, *order.words),
        cwd=order.cwd,
        env=order.env,
        preexec_fn=lambda: os.login_tty(os.dup(terminal)),
    )


def build_slow_replies(text: str) -> list[Reply]:
    """Half of an answer and then silence, the first time; the whole of it when asked again."""
    whole = Reply(text=text, chunks=len(text.split()))
    half = sum(len(piece) for piece in openai_bytes(whole)) // 2
    return [replace(whole, hang_at=half, times=1), whole]
