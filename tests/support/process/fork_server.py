"""Processes without their start-up: each is forked from one that has loaded what it needs.

To start Python and import everything is most of what a short program costs. A test of that start itself, or
of signals, starts the program instead.
"""

import asyncio
import atexit
import gc
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.json import decode, encode

from tests.support.path import ROOT

EXTRAS = (
    "asyncagents.llm.pydantic_ai",
    "asyncagents.tools.mcp.content",
    "asyncagents.tools.mcp.sdk_session",
    "asyncagents.tools.mcp.stdio",
)
UNUSED = ("asyncagents.__main__", "asyncagents.testing", "asyncagents.cli.demo", *EXTRAS)


Loaded = Literal["all", "libraries", "mcp"]
"""Before it forks: everything of ours, only what the simulation takes from others, or the SDK of MCP."""
FORKED_PROGRAM = str(Path(__file__).with_name("forked_program.py"))


class ForkOrder(Struct, frozen=True, kw_only=True):
    words: Sequence[str]
    cwd: str
    env: dict[str, str]
    module: str = "asyncagents"
    """As `python -m` takes it."""
    terminal: bool = False
    """Its stdin is one, and becomes its own."""
    first: str = ""
    """The directory where modules are looked for first; nothing is compiled into it."""
    loaded: Loaded = "all"


class ForkedProcess:
    """A process that is not our child: whoever forked it says how it ended."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reader, self._writer = reader, writer

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(await self._reader.readline())
            self._writer.close()
        return self.returncode


async def fork_process(order: ForkOrder, stdin: int, stdout: int, stderr: int) -> ForkedProcess:
    """Begin it."""
    written = encode(order) + b"\n"
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_master(order.loaded), [b"."], [theirs.fileno(), stdin, stdout, stderr])
    ours.sendall(written)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        return ForkedProcess(int(await reader.readline()), reader, writer)
    except asyncio.CancelledError:
        writer.close()  # so it ends, if it has begun
        raise


async def run_forked(order: ForkOrder) -> tuple[int, bytes, bytes]:
    """How it ended, with nothing to read, and what it said."""
    out, its_out = os.pipe()
    err, its_err = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        process = await fork_process(order, nothing, its_out, its_err)
    finally:
        for fd in (nothing, its_out, its_err):
            os.close(fd)
    try:
        said = await asyncio.gather(_read(out), _read(err))
        return await process.wait(), *said
    except asyncio.CancelledError:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        raise


def forked_command(loaded: Loaded, module: str, *words: str) -> tuple[str, ...]:
    """Return the command line of a program that runs a module in a process of the fork server."""
    _master(loaded)
    return (sys.executable, "-I", "-S", FORKED_PROGRAM, _listener_name(os.getpid(), loaded), module, *words)


def _listener_name(owner: int, loaded: Loaded) -> str:
    return f"asyncagents-tests-{owner}-{loaded}"


async def _read(fd: int) -> bytes:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    try:
        return await reader.read()
    finally:
        transport.close()


@cache
def _master(loaded: Loaded) -> socket.socket:
    """One for all tests of this process; it ends when we close our side."""
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{_listener_name(os.getpid(), loaded)}")
        listener.listen()
        fds = (theirs.fileno(), listener.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.process.fork_server", loaded, *map(str, fds)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=fds,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


class _Master:
    def __init__(self, control: socket.socket, listener: socket.socket) -> None:
        self._control = control
        self._listener = listener
        self._heirs: dict[int, socket.socket] = {}
        self._ended, self._tells = socket.socketpair()
        self._tells.setblocking(False)
        signal.set_wakeup_fd(self._tells.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)  # or nobody is woken

    def serve(self) -> ForkOrder | None:
        """Returns in every process that it forks, with what that one is to do; and here at the end."""
        while True:
            own = (self._control, self._listener, self._ended)
            ready, _, _ = select.select([*own, *self._heirs.values()], [], [])
            if self._ended in ready:
                self._reap()
            self._end([pid for pid, asker in self._heirs.items() if asker in ready])
            if self._control in ready:
                _, fds, _, _ = socket.recv_fds(self._control, 1, 4)
                if not fds:
                    self._end(self._heirs)
                    return None
                if (order := self._fork(socket.socket(fileno=fds[0]), fds[1:])) is not None:
                    return order
            if self._listener in ready:
                asker, _ = self._listener.accept()
                _, fds, _, _ = socket.recv_fds(asker, 1, 3)
                if (order := self._fork(asker, fds)) is not None:
                    return order

    def _end(self, heirs: Iterable[int]) -> None:
        """Nobody waits for them any more: who asks says nothing but that it has gone."""
        for pid in heirs:
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        self._ended.recv(4096)
        while self._heirs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._heirs.pop(pid) as asker, suppress(OSError):
                asker.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _fork(self, asker: socket.socket, fds: Sequence[int]) -> ForkOrder | None:
        with asker.makefile("rb") as file:
            order = decode(file.readline(), type=ForkOrder)
        if pid := os.fork():
            self._heirs[pid] = asker
            for fd in fds:
                os.close(fd)
            with suppress(OSError):
                asker.sendall(b"%d\n" % pid)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for own in (self._control, self._listener, self._ended, self._tells, asker, *self._heirs.values()):
            own.close()
        if order.terminal:
            os.login_tty(os.dup(fds[0]))
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.close(fd)
        return order


def _load(loaded: str) -> None:
    if loaded == "all":
        for module in pkgutil.walk_packages(import_module("asyncagents").__path__, "asyncagents."):
            if not module.name.startswith(UNUSED):
                import_module(module.name)
    elif loaded == "mcp":
        import_module("tests.support.mcp.server")
    else:
        import_module("tests.simulation.play")
        for name in [name for name in sys.modules if name.startswith(("asyncagents", "tests."))]:
            del sys.modules[name]
    gc.collect()
    gc.freeze()  # what is collected is written to, and what is written to is copied


def _become(order: ForkOrder) -> None:
    """As if Python had been started for it."""
    os.environ.clear()
    os.environ.update(order.env)
    os.chdir(order.cwd)
    if order.first:
        sys.path.insert(0, order.first)
        sys.dont_write_bytecode = True
    sys.argv[1:] = order.words
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def main() -> None:
    loaded, *fds = sys.argv[1:]
    _load(loaded)
    if order := _Master(*(socket.socket(fileno=int(fd)) for fd in fds)).serve():
        _become(order)
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
