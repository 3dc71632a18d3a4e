"""`asyncagents mcp list --session`: the MCP servers that a session was given."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.lookup import find_session, unknown_session, with_runtime
from asyncagents.cli.terminal.screen import print_table
from asyncagents.client.client import Client, open_client
from asyncagents.domain.http_shapes import SessionMcpServerState
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.discovery import find_server

States = tuple[SessionMcpServerState, ...]


async def show_session_servers(data: Path, start: str, *, as_json: bool) -> bool:
    """Print the servers of a session; return whether each can be used. The states are those of the server of
    the data directory, if it runs."""
    states = await _read_states(data, start)
    if as_json:
        click.echo(msgspec.json.encode(states))
    elif states:
        _print(states)
    else:
        click.echo("this session was given no MCP servers", err=True)
    return all(each.status != "failed" for each in states)


async def _read_states(data: Path, start: str) -> States:
    try:
        if find_server(data) is not None:
            async with open_client(data=data, patience=0) as client:
                return await _ask_server(client, start)
        found = await with_runtime(data, lambda runtime: _ask_store(runtime, start), nothing=None)
    except NotFound as error:
        raise unknown_session(start) from error
    except InvalidInput as error:
        raise CliError(str(error), code=USAGE) from error
    if found is None:
        raise unknown_session(start)
    return found


async def _ask_server(client: Client, start: str) -> States:
    return await client.mcp_servers.states((await client.find_session(start)).id)


async def _ask_store(runtime: Runtime, start: str) -> States:
    session = await find_session(runtime, start)
    found = await runtime.conversations.mcp_servers.states(session.id)
    return tuple(
        SessionMcpServerState(
            server=server, status=state.status, why=state.why or None, missing=state.missing
        )
        for server, state in found
    )


def _print(states: Sequence[SessionMcpServerState]) -> None:
    rows = [(each.server.name, each.server.type, each.server.where, _text(each)) for each in states]
    print_table([("server", "by", "where", ""), *rows], flexible=3)


def _text(each: SessionMcpServerState) -> str:
    match each.status:
        case "failed":
            return f"cannot be used: {each.why}"
        case "waiting":
            return "starts with the next step"
        case status:
            return status
