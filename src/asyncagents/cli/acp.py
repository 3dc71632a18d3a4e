"""`asyncagents acp`: let an editor drive agents, by the Agent Client Protocol on stdin and stdout."""

import asyncio
import os
import signal
import stat
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TextIO

import click

from asyncagents.acp.stdio import serve_stdio
from asyncagents.cli.options import data_dir_option, data_directory
from asyncagents.cli.terminal.signals import STOP_SECONDS, Signals
from asyncagents.client.client import Client, open_client
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids
from asyncagents.errors import Unavailable

TERMINAL_NOTE = (
    "note: an editor starts this command and sends JSON-RPC, one object per line, to its stdin; "
    "Ctrl-D ends it\n"
)
RECONNECT_SECONDS = 2.0
"""How long the server may be away before it is looked for, or started, again."""


@click.command()
@data_dir_option
def acp(*, data_dir: Path | None) -> None:
    """Let an editor drive agents, by the Agent Client Protocol.

    The editor starts this command and speaks on its stdin and stdout. Sessions run in the server of the data
    directory. If none runs, one is started that ends by itself some minutes after the last work is done and
    the last client has left. Closing the editor stops no work. ASYNCAGENTS_API_ENABLED=false: sessions run in
    this process until it ends, which prints what stays; the next start goes on with it.

    A server that cannot be started is the error of a request. A signal ends it as a closed connection does.
    Exit codes: 0 the client closed the connection; 2 wrong usage; 128 and the number of a signal.
    """
    _check_stream(sys.stdin, "stdin", "cat FILE | asyncagents acp")
    _check_stream(sys.stdout, "stdout", "asyncagents acp | tee FILE")
    if sys.stdin.isatty() and sys.stderr is not None:
        sys.stderr.write(TERMINAL_NOTE)
    if code := asyncio.run(_serve(data_directory(data_dir))):
        sys.exit(code)


def _check_stream(stream: TextIO | None, name: str, pipe: str) -> None:
    """Refuse a stream that is closed, a file or /dev/null: none of them has an editor at its other end."""
    if stream is not None:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty():
            return
    from asyncagents.cli.exit import USAGE, CliError  # start-up: after the first frame

    raise CliError(
        f"{name} is neither a pipe nor a terminal: an editor speaks to `asyncagents acp`",
        hint=f"name the command in the settings of the editor, or in a shell use a pipe: `{pipe}`",
        code=USAGE,
    )


async def _serve(data: Path) -> int:
    """Serve the client; return the exit code."""
    with Signals() as signals:

        async def wait_for_signal() -> None:
            await signals.received.wait()
            signals.force_exit_after(STOP_SECONDS)  # a client that reads nothing holds up what is written

        async with DataConnector(data, Path.cwd()) as connector:
            await serve_stdio(connector, Ids(SystemClock(), SystemRng()), wait_for_signal)
            if signals.number is None:
                return 0
            connector.why_ended = f"ending on {signal.Signals(signals.number).name}"
        return 128 + signals.number


class DataConnector:
    """Connects to the server of a data directory; without one, to a runtime of this process."""

    def __init__(self, data: Path, directory: Path) -> None:
        self._data = data
        self._directory = directory
        self._stack = AsyncExitStack()
        self.why_ended = "ending: the client closed the connection"

    async def __aenter__(self) -> "DataConnector":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def connect(self, directory: Path | None) -> Client:
        self._directory = directory or self._directory
        if await self._find_server():
            return await self._stack.enter_async_context(
                open_client(data=self._data, patience=RECONNECT_SECONDS)
            )
        return await self._open_runtime()

    async def restore(self) -> None:
        await self._find_server()

    async def _find_server(self) -> bool:
        from asyncagents.cli.exit import CliError  # start-up: after the first frame
        from asyncagents.cli.start_server import find_or_start_server

        try:
            return await find_or_start_server(self._data, self._directory) is not None
        except CliError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise Unavailable(f"{error.message}{hint}") from error

    async def _open_runtime(self) -> Client:
        from asyncagents.app.runtime import open_runtime  # start-up: only without a server
        from asyncagents.cli.serve.until_rest import print_remainder
        from asyncagents.config.env import system_environment
        from asyncagents.config.load import load_config
        from asyncagents.server.in_process import open_in_process_client

        config = load_config(system_environment(), directory=self._directory, data_dir=self._data).config
        runtime = await self._stack.enter_async_context(
            open_runtime(self._data, config=config, coding="each directory", needs_model=False)
        )

        async def print_rest() -> None:
            await print_remainder(runtime, self._data, why=self.why_ended)

        self._stack.push_async_callback(print_rest)
        return await self._stack.enter_async_context(
            open_in_process_client(runtime, self._data, str(self._directory))
        )
