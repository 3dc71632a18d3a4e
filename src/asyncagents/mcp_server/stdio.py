"""Serve one MCP client on standard input and output."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from asyncagents.client.server_link import ServerLink
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.server import Context, build_server
from asyncagents.remote.json_rpc import LineReader, LineTooLong
from asyncagents.remote.stdio import open_stdio

Incoming: TypeAlias = SessionMessage | Exception


async def serve_stdio(
    server_link: ServerLink, directory: str, wait_for_stop: Callable[[], Awaitable[None]], *, may_allow: bool
) -> None:
    """Serve until the client closes our standard input, or until `wait_for_stop` returns."""

    def tasks_of(caller: Caller, context: Context) -> AgentTasks:
        return AgentTasks(server_link, directory, client_name=caller.name, may_allow=may_allow)

    read, write, close_input = await open_stdio()

    async def close_on_stop() -> None:
        await wait_for_stop()
        close_input()

    try:
        async with asyncio.TaskGroup() as group:
            stopper = group.create_task(close_on_stop())
            await serve_lines(build_server(tasks_of), LineReader(read), write)
            stopper.cancel()
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client is gone: what it launched goes on in the server


async def serve_lines(
    server: Server[Any], read_line: LineReader, write: Callable[[bytes], Awaitable[None]]
) -> None:
    """Serve one connection whose messages are lines, until its end."""
    into, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, out = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(_write_messages(out, write))
        reader = group.create_task(_read_messages(read_line, into))
        await server.run(incoming, outgoing, server.create_initialization_options())
        reader.cancel()
        await writer


async def _read_messages(read_line: LineReader, into: MemoryObjectSendStream[Incoming]) -> None:
    """Pass on messages until the end of the stream; a line that is none becomes an error."""
    async with into:
        while True:
            try:
                line = await read_line()
                if line is None:
                    return
                message: Incoming = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except (ValueError, LineTooLong) as error:
                message = error
            await into.send(message)


async def _write_messages(
    out: MemoryObjectReceiveStream[SessionMessage], write: Callable[[bytes], Awaitable[None]]
) -> None:
    async with out:
        async for each in out:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            await write(f"{text}\n".encode())
