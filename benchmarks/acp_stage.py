"""A project with an external agent, its server, and editors on it, all as processes of their own."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from asyncagents.client.client import Client, open_client
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.server.discovery import find_server
from tests.support.acp.client import ProcessClient
from tests.support.acp.client import open_client as open_editor
from tests.support.wait import wait_until

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.02
PATIENCE = 120.0
STREAM, HANG = "stream", "hang"
"""What the external agent can be told."""


class AcpStage:
    """`marks`: a folder in which each external agent leaves a file when it hangs or has said all."""

    def __init__(self, root: Path, provider: str) -> None:
        self.project, self.data, self.marks = root / "project", root / "data", root / "marks"
        self._root = root
        for each in (root / "home", self.project, self.marks):
            each.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "ASYNCAGENTS_DATA_DIR": str(self.data),
            "ASYNCAGENTS_TRUST": "1",
        }
        self._configure(provider)

    def _configure(self, provider: str) -> None:
        local = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{provider}/v1", "apiKey": "local", "concurrency": 1_000},
            "models": {"local": {}},
        }
        agent = f"{sys.executable} -m asyncagents.testing.acp_agent"
        # each program has a memory of its own
        command = ["sh", "-c", f"exec {agent} {self._root}/script.json {self._root}/memory/$$"]
        config = {
            "model": "local/local",
            "provider": {"local": local},
            "agent": {"ext": {"description": "Works outside.", "backend": {"acp": command}}},
            "permission": {"external_agent": "allow"},
            "delegation": {"concurrent": 1_000},
            "external": {"concurrent": 1_000},
        }
        (self.project / "asyncagents.json").write_text(json.dumps(config))

    def direct_agent(self, text: str, *, chunks: int, gap: float) -> None:
        """Write what the external agent does; it is read when its program starts."""
        mark = {"shell": f"mktemp -p {self.marks}"}
        say = [{"say": text, "chunks": chunks, "gap": gap}] if chunks else []
        turns = {STREAM: [*say, mark], HANG: [mark, {"hang": True}]}
        (self._root / "script.json").write_text(json.dumps({"turns": turns}))

    def open_editor(self) -> AbstractAsyncContextManager[ProcessClient]:
        """Start `asyncagents acp` as an editor does."""
        return open_editor(
            (sys.executable, "-m", "asyncagents", "acp"), cwd=self.project, env=self.environment
        )

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["AcpServer"]:
        command = (sys.executable, "-m", "asyncagents", "serve", "--port", "0")
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.project, env=self.environment, stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            await wait_until(lambda: find_server(self.data), seconds=PATIENCE, pause=LOOK_SECONDS)
            yield AcpServer(self, process)
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()

    async def stop_server(self) -> None:
        """Stop the server that an editor has started, and wait for its end."""
        listing = find_server(self.data)
        if listing is not None:
            with suppress(ProcessLookupError):
                os.kill(listing.pid, signal.SIGTERM)
            gone = Path(f"/proc/{listing.pid}")
            await wait_until(lambda: not gone.exists(), seconds=PATIENCE, pause=LOOK_SECONDS)


class AcpServer:
    def __init__(self, stage: AcpStage, process: Process) -> None:
        self._stage = stage
        self.pid = process.pid

    async def launch(self, count: int, prompt: str) -> None:
        """Launch external agents and wait until each has left a mark."""
        marks = self._stage.marks
        wanted = len(list(marks.iterdir())) + count
        async with open_client(data=self._stage.data) as client:
            session = await client.create_session(directory=self._stage.project)
            await client.send(session.id, _launching(count, prompt))
            await wait_until(
                lambda: len(list(marks.iterdir())) == wanted, seconds=PATIENCE, pause=LOOK_SECONDS
            )
            if prompt == STREAM:
                ended = await wait_until(lambda: _ended_tasks(client, session.id), pause=LOOK_SECONDS)
                assert [each.status for each in ended] == ["completed"] * count


async def _ended_tasks(client: Client, session_id: SessionId) -> tuple[BackgroundTask, ...]:
    """Return the tasks of a session once all of them have ended."""
    tasks = await client.tasks.list(session_id)
    return tasks if all(each.completed_at is not None for each in tasks) else ()


def _launching(count: int, prompt: str) -> str:
    """Write a prompt that contains what the model replies."""
    uses = [{"description": f"Job {number}", "prompt": prompt, "agent": "ext"} for number in range(count)]
    launch = {"tools": [{"name": "async_task", "args": each} for each in uses]}
    return reply_prompt(steps=[launch, {"text": "ok"}])


def reply_prompt(**reply: Any) -> str:
    return f"go [[{json.dumps(reply)}]]"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_memory(pid: int) -> float:
    """Return the resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
