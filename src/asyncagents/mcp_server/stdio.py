"""Serve one MCP client on standard input and output."""

import asyncio
import json
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
from asyncagents.remote.json_rpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    LineReader,
    LineTooLong,
    WriteBytes,
)
from asyncagents.remote.stdio import open_stdio

Incoming: TypeAlias = SessionMessage | Exception
FLUSH_SECONDS = 5.0
"""How long a client may take to read what was sent before it closed the connection."""


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
            await serve_lines(build_server(tasks_of, subscribes=True), LineReader(read), write)
            stopper.cancel()
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client is gone: what it launched goes on in the server


async def serve_lines(server: Server[Any], read_line: LineReader, write: WriteBytes) -> None:
    """Serve one connection whose messages are lines, until its end."""
    into, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, out = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as group:
        writer = group.create_task(_write_messages(out, write))
        reader = group.create_task(_read_messages(read_line, into, write))
        await server.run(incoming, outgoing, server.create_initialization_options())
        reader.cancel()
        await asyncio.wait({writer}, timeout=FLUSH_SECONDS)
        writer.cancel()  # the client reads nothing


async def _read_messages(
    read_line: LineReader, into: MemoryObjectSendStream[Incoming], write: WriteBytes
) -> None:
    """Pass on messages until the end of the stream; a line that is none is answered with an error."""
    async with into:
        while True:
            line = b""
            try:
                if (read := await read_line()) is None:
                    return
                line = read
                message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except (ValueError, LineTooLong) as error:
                await write(_refuse_line(line, error))
            else:
                await into.send(message)


def _refuse_line(line: bytes, error: Exception) -> bytes:
    """Build the error of a line that is no message, with its id if it has one."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    given = found.get("id") if isinstance(found, dict) else None
    request_id = given if isinstance(given, int | str) and not isinstance(given, bool) else None
    code = PARSE_ERROR if found is None else INVALID_REQUEST
    why = str(error) if isinstance(error, LineTooLong) else "this is not a valid JSON-RPC message"
    reply = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": why}}
    return json.dumps(reply).encode() + b"\n"


async def _write_messages(out: MemoryObjectReceiveStream[SessionMessage], write: WriteBytes) -> None:
    async with out:
        async for each in out:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            await write(f"{text}\n".encode())
