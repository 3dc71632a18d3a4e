"""Connects an ACP or MCP command to the server of a data directory, or to a runtime of this process."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

from asyncagents.cli.terminal.signals import STOP_SECONDS, Signals
from asyncagents.client.client import Client, open_client
from asyncagents.errors import Unavailable

RECONNECT_SECONDS = 2.0
"""How long the server may be away before it is looked for, or started, again."""


Serve: TypeAlias = Callable[["DataConnector", Callable[[], Awaitable[None]]], Awaitable[None]]
"""Serves one client by a connector, until it is gone or the awaitable returns."""


async def serve_client(data: Path, directory: Path, serve: Serve) -> int:
    """Serve the client of this command until it is gone, or a signal comes; return the exit code."""
    with Signals() as signals:

        async def wait_for_signal() -> None:
            await signals.received.wait()
            signals.force_exit_after(STOP_SECONDS)  # a client that reads nothing holds up what is written

        async with DataConnector(data, directory) as connector:
            await serve(connector, wait_for_signal)
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
