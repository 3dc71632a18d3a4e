"""The MCP servers that a session was given, over HTTP."""

from collections.abc import Sequence

from asyncagents.client.json_client import JsonClient, build_path
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.http_shapes import SessionMcpServerState
from asyncagents.domain.id import SessionId


class ClientMcpServers:
    def __init__(self, http: JsonClient) -> None:
        self._http = http

    async def states(self, session_id: SessionId) -> tuple[SessionMcpServerState, ...]:
        """List the servers of a session's tree, with their states in the server's process."""
        return await self._http.get(_path(session_id), tuple[SessionMcpServerState, ...])

    async def replace(
        self, session_id: SessionId, servers: Sequence[NewMcpServer]
    ) -> tuple[SessionMcpServerState, ...]:
        """Replace the servers of a session's tree; the server keeps their secrets in memory only."""
        body = {"servers": servers}
        return await self._http.put(_path(session_id), tuple[SessionMcpServerState, ...], body)


def _path(session_id: SessionId) -> str:
    return build_path("v1", "sessions", session_id, "mcp-servers")
