"""A client that finds or starts the server of its data directory, as an editor's agent does.

`python -m tests.support.process.background_client DATA DIRECTORY [PROMPT]` prints a line of JSON with the URL
of the server, or with the error. With a prompt it begins a session, prints the session's id, and follows its
events until it is killed.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.cli.exit import CliError
from asyncagents.cli.start_server import find_or_start_server
from asyncagents.client import open_client
from asyncagents.server.discovery import find_server, is_server_lock_held
from tests.support.path import ROOT
from tests.support.process.command_line import NO_VARIABLES, PROCESS_PATIENCE, Desk
from tests.support.wait import wait_until

REST_SECONDS = 1.0
REST_VARIABLE = "CLIENT_REST_SECONDS"
"""How long the server stays that a client starts, if not so short."""


async def connect(data: Path, directory: Path, *prompt: str) -> None:
    rest_seconds = float(os.environ.get(REST_VARIABLE, REST_SECONDS))
    try:
        server = await find_or_start_server(data, directory, rest_seconds=rest_seconds)
    except CliError as error:
        show({"error": error.message, "hint": error.hint})
        return
    show({"url": server and server.url})
    if not prompt:
        return
    async with open_client(data=data) as client:
        session, _ = await client.begin(prompt[0], directory=directory)
        async with client.events(session.id, tree=True) as events:
            show({"session": session.id})
            async for _ in events:
                pass


def show(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class BackgroundClient:
    def __init__(self, process: Process) -> None:
        self.process = process

    async def read(self) -> dict[str, Any]:
        """Read the next line that the client prints."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PROCESS_PATIENCE):
            line = await self.process.stdout.readline()
        assert line, "the client has ended"
        found: dict[str, Any] = json.loads(line)
        return found

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def open_background_client(
    desk: Desk, *prompt: str, env: Mapping[str, str] = NO_VARIABLES, directory: Path | None = None
) -> AsyncIterator[BackgroundClient]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.process.background_client"),
        *(str(desk.data), str(directory or desk.project), *prompt),
        stdin=DEVNULL,
        stdout=PIPE,
        cwd=ROOT,
        env=desk.environment(env),
    )
    client = BackgroundClient(process)
    try:
        yield client
    finally:
        if process.returncode is None:
            await client.kill()


async def ask_for_server(desk: Desk, **more: Any) -> dict[str, Any]:
    """Return what a client prints that leaves at once."""
    async with open_background_client(desk, **more) as client:
        return await client.read()


async def wait_for_server_end(data: Path) -> None:
    await wait_until(lambda: not is_server_lock_held(data), seconds=PROCESS_PATIENCE)


@asynccontextmanager
async def stop_servers(data: Path) -> AsyncIterator[None]:
    """End the server that clients have started and that still runs when the block ends."""
    try:
        yield
    finally:
        found = find_server(data)
        if found is not None:
            os.kill(found.pid, signal.SIGKILL)
            await wait_for_server_end(data)


if __name__ == "__main__":
    asyncio.run(connect(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
