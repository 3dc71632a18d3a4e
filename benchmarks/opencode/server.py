"""The servers that are compared, each started offline in a folder of its own, with one and the same model."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from benchmarks.opencode.wire import Link, Place, Refused
from tests.peer.stage import program
from tests.support.process.npm import install_lock

HERE = Path(__file__).parents[2]
LOCK = HERE / "tests" / "peer" / "package-lock.json"
READY = "/global/health"
PATIENCE = 60.0


class Contender(Struct, frozen=True):
    """A server that speaks the API."""

    name: str
    command: tuple[str, ...]
    """Behind it comes the port."""


OURS = Contender("ours", (sys.executable, "-m", "asyncagents", "serve", "--no-auth", "--port"))


async def peer() -> Contender | str:
    """Or why it is not there. OPENCODE_BIN names it; else it is the one that our tests install from npm."""
    named = os.environ.get("OPENCODE_BIN")
    try:
        binary = Path(named) if named else program(await install_lock(LOCK))
    except pytest.skip.Exception as why_not:
        return str(why_not)
    return Contender("OpenCode", (str(binary), "serve", "--port"))


@contextmanager
def provider() -> Iterator[int]:
    """The port of a model that answers at once, or as it is told to."""
    command = [sys.executable, "-m", "benchmarks.opencode.model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


class Server:
    """One that can be started, killed and started again on what it left."""

    def __init__(self, contender: Contender, folder: Path, place: Place, model_port: int) -> None:
        self.contender = contender
        self.place = place
        self._folder = folder
        self._project = folder / "project"
        self._environment = _environment(folder, model_port)
        self._process: subprocess.Popen[bytes] | None = None
        self._project.mkdir(parents=True)
        git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.com"]
        subprocess.run([*git, "init", "-q"], cwd=self._project, check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "init"], cwd=self._project, check=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> float:
        """Returns how long it took until it answered."""
        began = time.perf_counter()
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220  nobody else waits
                [*self.contender.command, str(self.place.port)],
                cwd=self._project,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while time.perf_counter() - began < PATIENCE:
            if await self._answers():
                return time.perf_counter() - began
            await asyncio.sleep(0.01)
        raise TimeoutError(f"{self.contender.name} did not start; its log: {self._folder / 'log'}")

    async def _answers(self) -> bool:
        """A connection that OpenCode accepts while it starts may never be answered: each try has its own."""
        with suppress(OSError, TimeoutError, Refused):
            link = Link(self.place)
            try:
                await asyncio.wait_for(link.ask(self.place.request("GET", READY)), 0.5)
            finally:
                link.close()
            return True
        return False

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _environment(folder: Path, model_port: int) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(parents=True)
    provider = {
        "name": "Fake",
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"http://127.0.0.1:{model_port}/v1", "apiKey": "x"},
        "models": {
            "fake": {
                "name": "Fake model",
                "tool_call": True,
                "limit": {"context": 200_000, "output": 8_192},
                "cost": {"input": 1, "output": 2},
            }
        },
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "model": "fake/fake",
        "small_model": "fake/fake",
        "enabled_providers": ["fake"],
        "provider": {"fake": provider},
    }
    (folder / "opencode.json").write_bytes(msgspec.json.encode(config))
    ours = {"provider": {"fake": {"concurrency": 10_000}}}  # the peer has no limit
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "ASYNCAGENTS_DATA_DIR": str(home / "asyncagents"),
        "ASYNCAGENTS_CONFIG_CONTENT": msgspec.json.encode(ours).decode(),
        "OPENCODE_CONFIG": str(folder / "opencode.json"),
        **dict.fromkeys(_QUIET, "1"),
    }


_QUIET = (
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
    "OPENCODE_DISABLE_CLAUDE_CODE",
)
