"""`asyncagents acp`: let an editor drive agents, by the Agent Client Protocol on stdin and stdout."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from asyncagents.acp.stdio import serve_stdio
from asyncagents.cli.data_connector import DataConnector, serve_client
from asyncagents.cli.options import data_dir_option, data_directory
from asyncagents.cli.terminal.client_streams import check_streams
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids


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
    check_streams("an editor", "asyncagents acp")
    if code := asyncio.run(serve_client(data_directory(data_dir), Path.cwd(), _serve)):
        sys.exit(code)


async def _serve(connector: DataConnector, wait_for_stop: Callable[[], Awaitable[None]]) -> None:
    await serve_stdio(connector, Ids(SystemClock(), SystemRng()), wait_for_stop)
