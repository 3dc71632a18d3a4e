"""Serve MCP clients over streamable HTTP, as an ASGI application; who may use it is checked before."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from asyncagents.client.client import Client
from asyncagents.client.server_link import FixedConnector, ServerLink
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.server import Context, build_server

MOST_BODY_BYTES = 10 * 1024 * 1024
MOST_SESSIONS = 1_000
DIRECTORY = "directory"

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def open_http_app(client: Client, directory: str) -> AsyncIterator[AsgiApp]:
    """Open the application. A request sees the tasks of the `directory` of its query, else of this one."""
    link = ServerLink(FixedConnector(client))

    def tasks_of(caller: Caller, context: Context) -> AgentTasks:
        wanted = context.request.query_params.get(DIRECTORY) if context.request is not None else None
        if wanted is not None and not wanted.startswith("/"):
            raise MCPError(INVALID_PARAMS, "directory must be an absolute path, such as /home/me/project")
        try:
            return AgentTasks(link, wanted or directory, client_name=caller.name)
        except (OSError, ValueError) as error:
            raise MCPError(INVALID_PARAMS, f"directory cannot be resolved: {error}") from error

    manager = StreamableHTTPSessionManager(
        app=build_server(tasks_of),
        max_request_body_size=MOST_BODY_BYTES,
        max_sessions=MOST_SESSIONS,
    )
    async with manager.run():
        yield manager.handle_request
