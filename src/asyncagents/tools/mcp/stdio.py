"""Transport of SDK messages through a program's pipes; lines that are not messages go to the log tail."""

import asyncio
import codecs
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from asyncagents.domain.text import replace_surrogates_in
from asyncagents.tools.mcp.connection import LogTail
from asyncagents.tools.process.pipes import PipedProcess
from asyncagents.tools.process.processes import CHUNK_BYTES

MOST_LINE_BYTES = 16 * 1024 * 1024
EXIT_WAIT_SECONDS = 1.0
"""How long to wait for the program's exit after its output ended."""

Incoming: TypeAlias = SessionMessage | Exception
OnEnd: TypeAlias = Callable[[str], None]


@asynccontextmanager
async def open_stdio(
    piped: PipedProcess, tail: LogTail, ended: OnEnd
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Open the streams. `ended` is called with the reason before requests fail that wait for an answer."""
    into, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outof = anyio.create_memory_object_stream[SessionMessage](0)
    with into, incoming, outgoing, outof:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_messages, piped, into, tail, ended)
            group.start_soon(_write_messages, piped, outof)
            group.start_soon(_read_errors, piped, tail)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()


async def _read_messages(
    piped: PipedProcess, into: MemoryObjectSendStream[Incoming], tail: LogTail, ended: OnEnd
) -> None:
    why = ""
    with into:
        try:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                why = await _forward_lines(piped, into, tail)
        finally:
            ended(why or await _end_reason(piped))


async def _end_reason(piped: PipedProcess) -> str:
    try:
        async with asyncio.timeout(EXIT_WAIT_SECONDS):
            await piped.wait()
    except TimeoutError:
        return "It closed its output."
    return piped.exit_reason()


async def _forward_lines(piped: PipedProcess, into: MemoryObjectSendStream[Incoming], tail: LogTail) -> str:
    """Forward lines until the output ends; return why reading stopped earlier, else an empty string."""
    buffer = bytearray()
    while data := await piped.output.read(CHUNK_BYTES):
        buffer += data
        if b"\n" in data:
            *lines, rest = bytes(buffer).split(b"\n")
            buffer[:] = rest
            for line in lines:
                message = _parse_message(line, tail)
                if message is not None:
                    await into.send(message)
        if len(buffer) > MOST_LINE_BYTES:
            return f"It sent a line of more than {MOST_LINE_BYTES} bytes."
    return ""


def _parse_message(line: bytes, tail: LogTail) -> SessionMessage | None:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    try:
        return SessionMessage(_repair_message(line))
    except (ValueError, RecursionError):
        if line.strip():
            tail.add(f"(no message) {line[:200].decode('utf-8', 'replace')}")
        return None


def _repair_message(line: bytes) -> types.JSONRPCMessage:
    """Repair unpaired surrogates; turn an invalid answer into an error, so that its request does not hang."""
    data = replace_surrogates_in(json.loads(line))
    try:
        return types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValueError:
        if not isinstance(data, dict) or "method" in data or not isinstance(data.get("id"), int | str):
            raise
        error = types.ErrorData(
            code=types.PARSE_ERROR, message="The answer is not what the protocol asks for."
        )
        return types.JSONRPCError(jsonrpc="2.0", id=data["id"], error=error)


async def _write_messages(piped: PipedProcess, outof: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write messages to the program; if it no longer reads, it will end or its calls time out."""
    with suppress(OSError):
        async for message in outof:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await piped.writer.write(f"{text}\n".encode())


async def _read_errors(piped: PipedProcess, tail: LogTail) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await piped.errors.read(CHUNK_BYTES):
        tail.feed(decoder.decode(data))
