"""Two servers on the same kind of ground: OpenCode's own and ours, each in a home and projects of its own."""

import asyncio
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout
from msgspec import Struct

from tests.support.process.command_line import PROGRAM, read_until
from tests.support.wait import wait_until

PATIENCE = 60.0
KEY = "sk-of-the-stage"
FILES = {
    "README.md": "# A project\n\nWith a needle in it.\n",
    "src/app.py": "def main() -> None:\n    print('needle')\n",
    "src/old.txt": "one\ntwo\nthree\n",
}
RULES = {"bash": {"*": "allow", "touch asked*": "ask"}}
COMMAND = {"greet": {"description": "Say hello.", "template": "Say hello to $ARGUMENTS."}}


class Ground(Struct, frozen=True):
    """Where one server stands: it is started in `project`, asked for the others too; `plain` has no git."""

    home: Path
    project: Path
    other: Path
    plain: Path
    provider: str

    @property
    def config(self) -> Path:
        return self.home / ".config" / "opencode"

    def environment(self) -> dict[str, str]:
        """Nothing of the caller's own keys or configuration, nothing that goes out into the world."""
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
        }


class Served(Struct, frozen=True):
    url: str
    ground: Ground
    token: str = ""


def ground_at(root: Path, provider: str) -> Ground:
    """Files are remembered in `other` alone: it is what costs OpenCode's server most of a prompt."""
    ground = Ground(root / "home", root / "project", root / "other", root / "plain", provider)
    for folder in (ground.config, ground.plain):
        folder.mkdir(parents=True)
    _project(ground.project, FILES)
    _project(ground.other, {**FILES, "opencode.json": json.dumps({"snapshot": True})})
    (ground.config / "opencode.json").write_text(json.dumps(_config(provider)))
    return ground


def _project(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ("-c", "user.name=Stage", "-c", "user.email=stage@example.com")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*who, "commit", "-q", "-m", f"Begin {folder.name}"),
    ):
        subprocess.run(("git", *words), cwd=folder, check=True)


def _config(provider: str) -> dict[str, Any]:
    model = {
        "name": "The model",
        "tool_call": True,
        "limit": {"context": 200_000, "output": 8192},
        "cost": {"input": 1, "output": 2},
    }
    stage = {
        "name": "The stage",
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{provider}/v1", "apiKey": KEY},
        "models": {"m": model, "other": model},
    }
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "model": "stage/m",
        "small_model": "stage/m",
        "enabled_providers": ["stage"],
        "provider": {"stage": stage},
        "permission": RULES,
        "command": COMMAND,
    }


ALONE: Mapping[str, str] = {
    f"OPENCODE_{name}": "1"
    for name in (
        "DISABLE_MODELS_FETCH",
        "DISABLE_AUTOUPDATE",
        "DISABLE_SHARE",
        "DISABLE_DEFAULT_PLUGINS",
        "DISABLE_LSP_DOWNLOAD",
        "DISABLE_EXTERNAL_SKILLS",
        "DISABLE_CLAUDE_CODE",
        "EXPERIMENTAL_BACKGROUND_SUBAGENTS",
    )
}


def program(modules: Path) -> Path:
    """The binary itself: the launcher in front of it is linked by an install script, which nobody runs."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("OpenCode's server is tested against on Linux with an x86-64 processor")
    fast = re.search(r"^flags.*\bavx2\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return modules / ("opencode-linux-x64" if fast else "opencode-linux-x64-baseline") / "bin" / "opencode"


@asynccontextmanager
async def real_server(modules: Path, ground: Ground) -> AsyncIterator[Served]:
    url = f"http://127.0.0.1:{(port := free_port())}"
    process = await asyncio.create_subprocess_exec(
        *(str(program(modules)), "serve", "--port", str(port)),
        cwd=ground.project,
        env={**ground.environment(), **ALONE},
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        await _healthy(url, process)
        yield Served(url, ground)
    finally:
        await _killed(process)


@asynccontextmanager
async def our_server(ground: Ground, *, program: Sequence[str] = (PROGRAM,)) -> AsyncIterator[Served]:
    data = ground.home / "data"
    process = await asyncio.create_subprocess_exec(
        *(*program, "serve", "--port", "0"),
        cwd=ground.project,
        env={**ground.environment(), "ASYNCAGENTS_DATA_DIR": str(data), "ASYNCAGENTS_TRUST": "1"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        url = (await read_until(process, "\n")).removeprefix("listening at ").strip()
        yield Served(url, ground, json.loads((data / "server.json").read_text())["token"])
    finally:
        await _killed(process)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


async def _healthy(url: str, process: Process) -> None:
    """Asked again and again: a request that comes too early may never be answered."""
    async with ClientSession(timeout=ClientTimeout(total=1)) as session:

        async def is_healthy() -> bool:
            assert process.returncode is None, f"it ended with {process.returncode}"
            try:
                async with session.get(f"{url}/global/health") as answer:
                    return answer.status == 200
            except (ClientError, TimeoutError):
                return False

        await wait_until(is_healthy, seconds=PATIENCE, pause=0.1)


async def _killed(process: Process) -> None:
    """With all it started."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
