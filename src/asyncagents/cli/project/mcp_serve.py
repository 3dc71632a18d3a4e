"""`asyncagents mcp serve`: give an MCP client durable background agents, on stdin and stdout."""

import asyncio
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from asyncagents.cli.data_connector import DataConnector
from asyncagents.cli.options import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.cli.terminal.client_streams import check_streams
from asyncagents.cli.terminal.signals import STOP_SECONDS, Signals

NOT_INSTALLED = "the MCP server is not installed"


@click.command()
@click.option(
    "--answer-permissions",
    is_flag=True,
    help="Let the client's model allow tool calls (once each) that would ask a person.",
)
@directory_option
@data_dir_option
def serve(*, answer_permissions: bool, directory: Path, data_dir: Path | None) -> None:
    """Give an MCP client durable background agents.

    The client starts this command and speaks on its stdin and stdout. It sees the sessions and tasks of one
    directory. They run in the server of the data directory. If none runs, one is started that ends by itself
    some minutes after the last work is done and the last client has left. Closing the client stops no work.
    ASYNCAGENTS_API_ENABLED=false: sessions run in this process until it ends.

    Questions of agents can be answered by the client's model. Permissions are put to the person, if the
    client has forms; else `asyncagents answer` gives them.

    Exit codes: 0 the client closed the connection; 1 the extra `mcp` is missing; 2 wrong usage; 128 and the
    number of a signal.
    """
    if find_spec("mcp") is None:
        from asyncagents.cli.exit import CliError  # start-up: after the first message

        raise CliError(NOT_INSTALLED, hint="run `pip install 'asyncagents[mcp]'`")
    check_streams("an MCP client", "asyncagents mcp serve")
    place = project_folder(directory)
    if code := asyncio.run(_serve(place, data_directory(data_dir), may_allow=answer_permissions)):
        sys.exit(code)


async def _serve(directory: Path, data: Path, *, may_allow: bool) -> int:
    """Serve the client; return the exit code."""
    from asyncagents.client.server_link import ServerLink  # start-up: only for this command
    from asyncagents.mcp_server.stdio import serve_stdio

    with Signals() as signals:

        async def wait_for_signal() -> None:
            await signals.received.wait()
            signals.force_exit_after(STOP_SECONDS)

        async with DataConnector(data, directory) as connector:
            link = ServerLink(connector)
            link.prefer_directory(directory)
            await serve_stdio(link, str(directory), wait_for_signal, may_allow=may_allow)
            if signals.number is None:
                return 0
            connector.why_ended = f"ending on {signal.Signals(signals.number).name}"
        return 128 + signals.number
