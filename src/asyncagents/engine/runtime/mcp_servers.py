"""Give MCP servers to sessions and show their states: what `runtime.conversations.mcp_servers` does."""

from collections.abc import Sequence

from asyncagents.domain.conversation.mcp_server import NewMcpServer, SessionMcpServer, check_servers
from asyncagents.domain.conversation.session import Session, SessionChanges
from asyncagents.domain.id import SessionId
from asyncagents.engine.workplace.mcp import McpControl, McpServerState, missing_state
from asyncagents.engine.workplace.session_servers import TreeServers, stored_form
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store

NO_SERVERS = "this runtime has no MCP servers: it was opened without config files"
NOT_OF_A_CHILD = "a session with a parent uses the MCP servers of its root session: give them to that one"


class GivenMcpServers:
    """The MCP servers that sessions were given. Their values stay in the memory of this process."""

    def __init__(self, store: Store, workplaces: Workplaces) -> None:
        self._store = store
        self._workplaces = workplaces

    def check(
        self, servers: Sequence[NewMcpServer], *, parent_id: SessionId | None = None
    ) -> tuple[SessionMcpServer, ...]:
        """Return the servers as they are stored. Raises `InvalidInput` for those that cannot be used."""
        if servers and parent_id is not None:
            raise InvalidInput(NOT_OF_A_CHILD)
        if servers and self._workplaces.mcp_control is None:
            raise InvalidInput(NO_SERVERS)
        check_servers(servers)
        return tuple(stored_form(each) for each in servers)

    def keep_values(self, root: Session, servers: Sequence[NewMcpServer], *, replaces: bool = False) -> None:
        """Keep the values of servers of a root session."""
        control = self._workplaces.mcp_control
        if control is not None:
            control.session_servers.keep_values(root.id, servers, replaces=replaces)
            control.change_tree(TreeServers(root_id=root.id, servers=root.mcp_servers))

    async def replace(self, session_id: SessionId, servers: Sequence[NewMcpServer]) -> Session:
        """Replace the servers of a session's tree; return its root."""
        stored = self.check(servers)
        root_id = (await self._store.control(session_id)).root_id
        if (control := self._workplaces.mcp_control) is not None:  # a step may see the row at once
            control.session_servers.keep_values(root_id, servers, replaces=False)
        changes = SessionChanges(mcp_servers=stored)
        root = await self._store.conversation.update_session(root_id, changes)
        self.keep_values(root, servers, replaces=True)
        return root

    async def states(self, session_id: SessionId) -> tuple[tuple[SessionMcpServer, McpServerState], ...]:
        """List the servers of a session's tree with their states in this process; start none."""
        root_id = (await self._store.control(session_id)).root_id
        root, control = await self._store.session(root_id), self._workplaces.mcp_control
        if control is None:  # a program that starts no servers: what one without values would say
            return tuple((each, missing_state(each)) for each in root.mcp_servers)
        found = control.tree_states(TreeServers(root_id=root_id, servers=root.mcp_servers))
        return tuple((each, found[each.name]) for each in root.mcp_servers)

    def share_values(self, source: Session, fork: Session) -> None:
        """Give a fork the values of its source."""
        control = self._workplaces.mcp_control
        if control is not None and source.mcp_servers:
            control.session_servers.copy_values(source.id, fork.id)

    def forget(self, session_id: SessionId) -> None:
        """Drop the values of a deleted session and end its connections."""
        control: McpControl | None = self._workplaces.mcp_control
        if control is not None:
            control.forget_tree(session_id)
