"""`asyncagents mcp`: list the MCP servers of a directory, their state and what they offer."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.project.mcp_serve import serve
from asyncagents.cli.project.open import open_project
from asyncagents.cli.terminal.screen import one_line, plain, print_table
from asyncagents.config.env import system_environment
from asyncagents.config.load import load_config
from asyncagents.config.paths import data_folder
from asyncagents.domain.call.call import Effect
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.client import McpClient, ServerSpec
from asyncagents.tools.mcp.servers import open_servers, tool_name


@click.group(invoke_without_command=True)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Show the MCP servers of this directory, or be one.

    Without a subcommand, lists them.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_servers)


mcp.add_command(serve)


@mcp.command("list")
@click.option("--session", metavar="ID", help="List the servers that this session was given; start none.")
@json_option
@directory_option
@data_dir_option
@click.pass_context
def list_servers(
    context: click.Context,
    *,
    session: str | None = None,
    as_json: bool = False,
    directory: Path = Path(),
    data_dir: Path | None = None,
) -> None:
    """Start every MCP server of this directory, and list what they offer.

    Each server is started, queried and stopped. The exit code is 1 if an enabled server cannot be used.
    """
    import asyncio

    from asyncagents.cli.exit import FAILED

    if session is not None:
        from asyncagents.cli.project.mcp_session import show_session_servers  # start-up: opens the store

        good = asyncio.run(show_session_servers(data_directory(data_dir), session, as_json=as_json))
    else:
        good = asyncio.run(show_servers(project_folder(directory), data_dir, as_json=as_json))
    context.exit(0 if good else FAILED)


class McpToolRow(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    effect: Effect


class McpServerRow(Struct, frozen=True, kw_only=True):
    """A server as `--json` prints it. `why`: what is wrong; `said`: the last lines of its stderr."""

    name: str
    transport: str
    enabled: bool
    connected: bool
    why: str | None = None
    said: tuple[str, ...] = ()
    tools: tuple[McpToolRow, ...] = ()
    resources: int = 0
    prompts: int = 0


async def show_servers(directory: Path, data_dir: Path | None, *, as_json: bool) -> bool:
    """Print the servers; return whether every enabled one can be used."""
    environment = system_environment()
    for warning in load_config(environment, directory=directory).warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    logging.getLogger("asyncagents.tools").setLevel(logging.ERROR)  # each row says what is wrong
    async with open_project(directory, data_dir) as opened:
        rows = await query_servers(opened.servers, data_folder(environment, data_dir)[0] / "tool-output")
    if as_json:
        click.echo(msgspec.json.encode(rows))
    elif rows:
        _print(rows)
    else:
        click.echo('no MCP servers here; configure one under "mcp" in asyncagents.json', err=True)
    return all(row.connected for row in rows if row.enabled)


async def query_servers(wanted: Sequence[ServerSpec], output: Path) -> list[McpServerRow]:
    """Start and query the servers concurrently."""
    async with open_servers(output) as servers:
        servers.set_servers("", tuple(wanted))
        links = {client.name: client for client in servers.clients("")}
        async with asyncio.TaskGroup() as group:
            asked = {name: group.create_task(_query_server(client)) for name, client in links.items()}
        return [asked[each.name].result() if each.name in asked else _disabled_row(each) for each in wanted]


async def _query_server(client: McpClient) -> McpServerRow:
    try:
        resources = len(await client.request(lambda connection: connection.list_resources()))
        prompts = len(await client.request(lambda connection: connection.list_prompts()))
    except ToolError as error:
        return McpServerRow(
            name=client.name,
            transport=_transport(client.spec),
            enabled=True,
            connected=False,
            why=client.failure or str(error),
            said=client.tail.lines,
        )
    tools = (
        McpToolRow(name=tool_name(client.name, each.name), description=each.description, effect=each.effect)
        for each in client.tools
    )
    return McpServerRow(
        name=client.name,
        transport=_transport(client.spec),
        enabled=True,
        connected=True,
        tools=tuple(tools),
        resources=resources,
        prompts=prompts,
    )


def _disabled_row(spec: ServerSpec) -> McpServerRow:
    return McpServerRow(name=spec.name, transport=_transport(spec), enabled=False, connected=False)


def _transport(spec: ServerSpec) -> str:
    return "stdio" if spec.config.type == "local" else "http"


def _print(rows: Sequence[McpServerRow]) -> None:
    print_table([("server", "by", ""), *((row.name, row.transport, _state(row)) for row in rows)], flexible=2)
    for row in rows:
        for line in row.said:
            click.echo(f"{plain(row.name)} stderr: {one_line(line)}", err=True)
    tools = [(tool.name, tool.effect, tool.description) for row in rows for tool in row.tools]
    if tools:
        click.echo()
        print_table([("tool", "effect", ""), *tools], flexible=2)


def _state(row: McpServerRow) -> str:
    if not row.enabled:
        return "disabled"
    if not row.connected:
        return f"cannot be used: {row.why}"
    return f"connected: {len(row.tools)} tools, {row.resources} resources, {row.prompts} prompts"
