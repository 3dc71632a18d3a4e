"""A program on a terminal as a person sits at it: tmux draws it, we read its screen and press its keys."""

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

PATIENCE = 60.0
"""So long for what must be seen; a healthy run never waits for it."""
SIZE = ("-x", "140", "-y", "50")
SETTINGS = """
set -g default-terminal tmux-256color
set -g remain-on-exit on
set -g status off
set -g history-limit 0
"""


def have_tmux() -> str:
    found = shutil.which("tmux")
    if found is None:
        pytest.skip("tmux is not installed: apt-get install tmux")
    return found


class Tmux(asyncio.SubprocessProtocol):
    """A control client: commands go in as lines, their answers and the news of panes come out."""

    def __init__(self) -> None:
        self._asked: deque[asyncio.Future[list[str]]] = deque()
        self._unread = b""
        self._answer: list[str] | None = None
        self._input: asyncio.WriteTransport | None = None
        self._news = asyncio.Event()
        self.gone = asyncio.Event()
        self._await_answer()  # of the attach itself

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        pipe = transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        self._input = pipe

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._read(line.decode(errors="replace").rstrip("\r"))

    def process_exited(self) -> None:
        self.gone.set()

    def _read(self, line: str) -> None:
        if line.startswith("%begin "):
            self._answer = []
        elif line.startswith(("%end ", "%error ")):
            self._answered(self._answer or [], failed=line.startswith("%error "))
            self._answer = None
        elif self._answer is not None:
            self._answer.append(line)
        elif line.startswith("%output "):
            self._news.set()

    def _await_answer(self) -> asyncio.Future[list[str]]:
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        return answer

    def _answered(self, lines: list[str], *, failed: bool) -> None:
        answer = self._asked.popleft()
        if answer.cancelled():
            return
        if failed:
            answer.set_exception(AssertionError(f"tmux refused: {lines}"))
        else:
            answer.set_result(lines)

    async def do(self, command: str) -> list[str]:
        """Its answer, and from then on what is news."""
        assert self._input is not None
        answer = self._await_answer()
        self._input.write(f"{command}\n".encode())
        self._news.clear()
        return await answer

    async def anything(self) -> None:
        """Until a pane draws; its death is not told, so there is a look now and then as well."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._news.wait()


class Screen:
    """One program in a window of its own."""

    def __init__(self, tmux: Tmux, window: str) -> None:
        self._tmux = tmux
        self._window = window

    async def look(self) -> str:
        lines = await self._tmux.do(f"capture-pane -p -t {self._window}")
        return "\n".join(line.rstrip() for line in lines if line.strip())

    async def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Escape, C-x, Down."""
        await self._tmux.do(f"send-keys -t {self._window} {' '.join(keys)}")

    async def type(self, text: str) -> None:
        codes = " ".join(f"{byte:x}" for byte in text.encode("ascii"))
        await self._tmux.do(f"send-keys -t {self._window} -H {codes}")

    async def shows(self, *texts: str, without: Sequence[str] = ()) -> str:
        """Once all of these are on the screen at one time, and none of those."""
        seen = ""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = await self.look()
                    if all(text in seen for text in texts) and not any(text in seen for text in without):
                        return seen
                    await self._tmux.anything()
        except TimeoutError:
            wanted = f"not seen: {[text for text in texts if text not in seen]}"
            unwanted = f"still seen: {[text for text in without if text in seen]}"
            raise AssertionError(f"{wanted}, {unwanted}\n{seen}") from None


class Terminal:
    """Opens screens; all of them end with it."""

    def __init__(self, tmux: Tmux) -> None:
        self._tmux = tmux
        self._opened = 0

    async def open(self, words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> Screen:
        self._opened += 1
        given = " ".join(f"-e {_quoted(f'{name}={value}')}" for name, value in env.items())
        command = " ".join(_quoted(str(word)) for word in words)
        window = f"w:{self._opened}"
        await self._tmux.do(f"new-window -d -t {window} -c {_quoted(str(cwd))} {given} {command}")
        return Screen(self._tmux, window)


def _quoted(word: str) -> str:
    assert "'" not in word
    return f"'{word}'"


@asynccontextmanager
async def open_terminal() -> AsyncIterator[Terminal]:
    tmux = have_tmux()
    with tempfile.TemporaryDirectory(prefix="aa-tmux-") as folder:
        settings = Path(folder) / "tmux.conf"
        settings.write_text(SETTINGS)
        at = (tmux, "-S", str(Path(folder) / "socket"), "-f", str(settings))
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": folder, "SHELL": "/bin/sh"}
        await _run(*at, "-u", "new-session", "-d", "-s", "w", *SIZE, "cat", env=env)
        words = (*at, "-C", "attach-session", "-t", "w")
        transport, client = await asyncio.get_running_loop().subprocess_exec(
            Tmux, *words, stderr=None, env=env
        )
        try:
            yield Terminal(client)
        finally:
            await _run(*at, "kill-server", env=env)
            await client.gone.wait()
            transport.close()


async def _run(*words: str, env: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=env
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
