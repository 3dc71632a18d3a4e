"""`/v1/sessions/{id}/mcp-servers`: the MCP servers that a session was given."""

from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.http_shapes import SessionMcpServerState
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import session_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()


class McpServerList(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The servers that a session has from now on."""

    servers: tuple[NewMcpServer, ...]


@routes.get("/v1/sessions/{id}/mcp-servers", access="token", response=tuple[SessionMcpServerState, ...])
async def list_servers(server: ServerContext, request: Request) -> Response:
    """List the MCP servers that a session was given, with their states in this process.

    A child session has those of its root. Starts no server: they start at the next step."""
    return await _states(server, session_id(request))


@routes.put(
    "/v1/sessions/{id}/mcp-servers",
    access="token",
    body=McpServerList,
    response=tuple[SessionMcpServerState, ...],
)
async def replace_servers(server: ServerContext, request: Request) -> Response:
    """Replace the MCP servers of a session and of all sessions of its tree.

    Values of variables and headers, and secrets in commands and URLs, are kept in memory only."""
    named = session_id(request)
    await server.runtime.conversations.mcp_servers.replace(named, read_body(request, McpServerList).servers)
    return await _states(server, named)


async def _states(server: ServerContext, named: SessionId) -> Response:
    found = await server.runtime.conversations.mcp_servers.states(named)
    return json_response(
        [
            SessionMcpServerState(
                server=each, status=state.status, why=state.why or None, missing=state.missing
            )
            for each, state in found
        ]
    )
