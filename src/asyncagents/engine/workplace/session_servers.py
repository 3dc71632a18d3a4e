"""The MCP servers that sessions were given: what a tree of sessions uses, and values kept in memory only."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.config.config import McpConfig
from asyncagents.config.file.hide import hide_in_command, hide_in_url
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.conversation.mcp_server import HiddenField, NewMcpServer, SessionMcpServer
from asyncagents.domain.id import SessionId

MOST_TREES = 10_000
VALUES_MISSING = (
    "The values of {} are not stored, and this process was not given them: load the session again in the "
    "editor that gave the server, or give the server again."
)


class TreeServers(Struct, frozen=True, kw_only=True):
    """The MCP servers of a tree of sessions, for one that works in it."""

    root_id: SessionId
    servers: tuple[SessionMcpServer, ...]
    user: object = None
    """What works with the servers: connections stay open as long as it is alive. None: for this moment."""


def stored_form(server: NewMcpServer) -> SessionMcpServer:
    """Return a server as it is stored: without values, and with "…" for what looks like a secret."""
    command = hide_in_command(server.command)
    url = None if server.url is None else hide_in_url(server.url)
    hidden: list[HiddenField] = []
    if command != server.command:
        hidden.append("command")
    if url != server.url:
        hidden.append("url")
    return SessionMcpServer(
        name=server.name,
        type=server.type,
        command=command,
        url=url,
        environment=tuple(server.environment),
        headers=tuple(server.headers),
        hidden=tuple(hidden),
    )


def _given_config(server: NewMcpServer) -> McpConfig:
    return McpConfig(
        type="local" if server.type == "stdio" else "remote",
        command=server.command,
        environment=server.environment,
        url=server.url,
        headers=server.headers,
    )


class SessionServers:
    """Values of the trees' servers, which no row has, and what the rows of roots said last.

    Values belong to exactly the stored server that they were given with: they never reach another program.
    """

    def __init__(self) -> None:
        self._given: BoundedDict[SessionId, dict[SessionMcpServer, McpConfig]] = BoundedDict(MOST_TREES)
        self._rows: BoundedDict[SessionId, tuple[SessionMcpServer, ...]] = BoundedDict(MOST_TREES)
        self.were_seen = False
        """Whether this process has seen a tree with servers."""

    def keep_values(self, root_id: SessionId, servers: Sequence[NewMcpServer], *, replaces: bool) -> None:
        """Keep the values of a tree's servers. `replaces`: those of its other servers are dropped."""
        given = {stored_form(each): _given_config(each) for each in servers}
        kept = given if replaces else {**self._given.get(root_id, {}), **given}
        self.forget(root_id)
        if kept:
            self._given[root_id] = kept

    def copy_values(self, root_id: SessionId, other_id: SessionId) -> None:
        """Let another tree, which has the same servers, use the values."""
        if root_id in self._given:
            self._given[other_id] = self._given[root_id]

    def forget(self, root_id: SessionId) -> None:
        """Drop everything about a tree."""
        self._given.pop(root_id, None)
        self._rows.pop(root_id, None)

    def note_row(self, root_id: SessionId, servers: tuple[SessionMcpServer, ...]) -> None:
        """Note what the row of a root says."""
        self._rows[root_id] = servers
        self.were_seen = self.were_seen or bool(servers)

    def noted_row(self, root_id: SessionId) -> tuple[SessionMcpServer, ...] | None:
        return self._rows.get(root_id)

    def find_config(self, root_id: SessionId, server: SessionMcpServer) -> McpConfig | None:
        """Return how a server is reached; None: it needs values that are missing."""
        given = self._given.get(root_id, {}).get(server)
        if given is not None or server.values:
            return given
        return McpConfig(
            type="local" if server.type == "stdio" else "remote", command=server.command, url=server.url
        )
