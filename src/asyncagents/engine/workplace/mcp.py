"""MCP servers of a directory besides their tools: resources, prompts, and their states."""

from typing import Any, Literal, Protocol

from msgspec import Struct

from asyncagents.config.config import McpConfig
from asyncagents.domain.call.server_task_state import ServerTaskEnded, ServerTaskWorking
from asyncagents.domain.conversation.mcp_server import SessionMcpServer
from asyncagents.domain.id import SessionId
from asyncagents.engine.workplace.session_servers import VALUES_MISSING, SessionServers, TreeServers


class McpResource(Struct, frozen=True, kw_only=True):
    server: str
    uri: str
    name: str
    description: str = ""
    mime: str = ""


class McpContent(Struct, frozen=True, kw_only=True):
    """A text, or data."""

    uri: str = ""
    mime: str = ""
    text: str | None = None
    data: bytes | None = None


class McpPromptArgument(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class McpPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of an MCP server; as a command it is named `server:prompt`."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[McpPromptArgument, ...] = ()

    @property
    def command(self) -> str:
        return f"{self.server}:{self.name}"


class McpResources(Protocol):
    """Resources, prompts and tasks of servers. Raises only `ToolError`, for one that is not available."""

    async def list_resources(self) -> tuple[McpResource, ...]:
        """List the resources of all servers, in order; unreachable servers are skipped."""
        ...

    async def read_resource(self, server: str, uri: str) -> tuple[McpContent, ...]: ...

    async def list_prompts(self, command: str | None = None) -> tuple[McpPrompt, ...]:
        """List the prompts of all servers, or of those that may have the command's prompt."""
        ...

    async def get_prompt(
        self, server: str, name: str, arguments: dict[str, str]
    ) -> tuple[McpContent, ...]: ...

    async def task_state(self, server: str, task_id: str) -> ServerTaskWorking | ServerTaskEnded:
        """Ask a server how one of its tasks goes on."""
        ...

    async def answer_task(self, server: str, task_id: str, responses: dict[str, dict[str, Any]]) -> None:
        """Send the responses to forms of a task."""
        ...

    async def cancel_task(self, server: str, task_id: str) -> None:
        """Ask a server to cancel a task; whether it does is up to the server."""
        ...


class McpServerState(Struct, frozen=True, kw_only=True):
    """State of an MCP server in a directory. `waiting`: not needed yet, or starting."""

    status: Literal["connected", "disabled", "failed", "waiting"]
    why: str = ""
    """Why it failed, and what to do."""
    missing: tuple[str, ...] = ()
    """Names for values that the server of a session needs, and that this process was not given."""


def missing_state(server: SessionMcpServer) -> McpServerState:
    """Return the state of a session's server whose values this process was not given."""
    if not server.values:
        return McpServerState(status="waiting")
    why = VALUES_MISSING.format(", ".join(server.values))
    return McpServerState(status="failed", why=why, missing=server.values)


class McpControl(Protocol):
    """Shows and switches the MCP servers of a directory. Changes are not stored: they last until the runtime
    ends. An unknown server raises `NotFound`."""

    @property
    def session_servers(self) -> SessionServers:
        """What this process knows of servers that sessions were given."""
        ...

    def change_tree(self, tree: TreeServers) -> None:
        """Take over the new servers of a tree: connections of others end."""
        ...

    def forget_tree(self, root_id: SessionId) -> None:
        """Drop the values of a tree's servers and end their connections."""
        ...

    def tree_states(self, tree: TreeServers) -> dict[str, McpServerState]:
        """Return the states of the servers of a tree of sessions, by name; start none."""
        ...

    async def states(self, directory: str, *, seconds: float) -> dict[str, McpServerState]:
        """Return the states of all servers of a directory; start enabled ones and wait up to `seconds`."""
        ...

    async def switch(self, directory: str, name: str, *, on: bool) -> None: ...

    async def add(self, directory: str, name: str, config: McpConfig) -> None:
        """Add a server, or replace the one of that name."""
        ...
