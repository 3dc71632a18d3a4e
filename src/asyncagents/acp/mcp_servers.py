"""The MCP servers that a client gives to its sessions."""

from collections.abc import Sequence

from asyncagents.acp.shape import McpServerParams, NamedValue
from asyncagents.client.server_link import ServerLink
from asyncagents.domain.conversation.mcp_server import NewMcpServer, ServerType, check_servers
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.errors import InvalidInput

MCP_CAPABILITIES = {"http": True, "sse": False}


def read_servers(given: Sequence[McpServerParams]) -> tuple[NewMcpServer, ...]:
    """Return the servers of a request. Raises `InvalidInput` for those that cannot be used."""
    servers = tuple(_read_server(each) for each in given)
    check_servers(servers)
    return servers


def _read_server(given: McpServerParams) -> NewMcpServer:
    return NewMcpServer(
        name=given.name,
        type=_read_type(given),
        command=() if given.command is None else (given.command, *given.args),
        url=given.url,
        environment=_read_pairs(given.env),
        headers=_read_pairs(given.headers),
    )


def _read_type(given: McpServerParams) -> ServerType:
    match given.type:
        case "stdio" | "http" as kind:
            return kind
        case other:
            raise InvalidInput(
                f"MCP server {given.name[:80]!r} is of type {other[:20]!r}: only stdio and http are supported"
            )


def _read_pairs(pairs: Sequence[NamedValue]) -> dict[str, str]:
    return {each.name: each.value for each in pairs}


class GivenServers:
    """The servers that the client gave to its open sessions; their values are in no store."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._given: dict[str, tuple[NewMcpServer, ...]] = {}

    def note(self, session_id: str, servers: tuple[NewMcpServer, ...]) -> None:
        self._given[session_id] = servers

    def forget(self, session_id: str) -> None:
        self._given.pop(session_id, None)

    async def replace(self, session: Session, given: Sequence[McpServerParams] | None) -> None:
        """Replace the servers of a session that is opened again; without a list, it keeps those it has."""
        if given is None:
            return
        servers = read_servers(given)
        if servers or session.mcp_servers:
            await self._link.call(lambda client: client.mcp_servers.replace(session.id, servers))
        self.note(session.id, servers)

    async def restore(self, session_id: SessionId) -> None:
        """Give the values again to a server that was started since."""
        servers = self._given.get(session_id, ())
        if not servers:
            return
        states = await self._link.call(lambda client: client.mcp_servers.states(session_id))
        names = {each.server.name for each in states if each.missing}
        if names.intersection(each.name for each in servers):
            await self._link.call(lambda client: client.mcp_servers.replace(session_id, servers))
