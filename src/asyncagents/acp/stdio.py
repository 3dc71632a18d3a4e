"""Serve the protocol on standard input and output."""

import asyncio
from collections.abc import Awaitable, Callable

from asyncagents.acp.agent import AcpAgent
from asyncagents.client.server_link import ServerConnector, ServerLink
from asyncagents.domain.id import Ids
from asyncagents.remote.json_rpc import JsonRpcConnection, LineReader
from asyncagents.remote.stdio import open_stdio


async def serve_stdio(
    connector: ServerConnector, ids: Ids, wait_for_stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve one client until it closes our standard input, or until `wait_for_stop` returns."""
    read, write, close_input = await open_stdio()

    async def close_on_stop() -> None:
        await wait_for_stop()
        close_input()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(close_on_stop())
            agent = AcpAgent(ServerLink(connector), ids, group=group)
            connection = JsonRpcConnection(LineReader(read), write, agent, group=group)
            agent.attach(connection)
            await connection.run()
            agent.close()
            raise _ConnectionEnd
    except* (_ConnectionEnd, BrokenPipeError, ConnectionResetError):
        pass  # the client is gone: what it began goes on in the server


class _ConnectionEnd(Exception):
    """Ends the tasks of a connection that was closed."""
