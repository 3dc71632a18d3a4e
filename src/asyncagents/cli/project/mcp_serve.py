"""`asyncagents mcp serve`: give an MCP client durable background agents, on stdin and stdout."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

import click

from asyncagents.cli.data_connector import DataConnector, serve_client
from asyncagents.cli.options import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.cli.terminal.client_streams import check_streams

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

    async def serve_tools(connector: DataConnector, wait_for_stop: Callable[[], Awaitable[None]]) -> None:
        from asyncagents.client.server_link import ServerLink  # start-up: only for this command
        from asyncagents.mcp_server.stdio import serve_stdio

        link = ServerLink(connector)
        link.prefer_directory(place)
        await serve_stdio(link, str(place), wait_for_stop, may_allow=answer_permissions)

    if code := asyncio.run(serve_client(data_directory(data_dir), place, serve_tools)):
        sys.exit(code)
