"""The client that makes a request: what it can do, its reports of progress, and its person."""

from itertools import count
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
MOST_NAME = 200
"""Characters of the client's name that are stored with its answers."""


class Caller:
    """One request of a client."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context = context
        self._capabilities = context.session.client_capabilities
        self._reports = count(1)

    @property
    def name(self) -> str:
        given = self._context.session.client_params
        if given is None or given.client_info is None:
            return "mcp"
        return (given.client_info.title or given.client_info.name).replace("\0", " ")[:MOST_NAME]

    @property
    def is_modern(self) -> bool:
        """Whether the client speaks a protocol without requests from the server."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def takes_tasks(self) -> bool:
        """Whether a call may become a task; some clients declare the extension on older protocols too."""
        extensions = self._capabilities.extensions if self._capabilities is not None else None
        return self.is_modern and TASKS_EXTENSION in (extensions or {})

    @property
    def fills_forms(self) -> bool:
        """Whether the client shows forms to its person; a capability without fields means forms."""
        offered = self._capabilities.elicitation if self._capabilities is not None else None
        return offered is not None and (offered.form is not None or offered.url is None)

    async def report(self, message: str) -> None:
        await self._context.session.report_progress(next(self._reports), None, message)

    async def fill_form(self, form: ElicitRequest) -> ElicitResult | None:
        """Have the person fill a form, on a protocol with requests from the server; None: it failed."""
        related = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            return await self._context.session.send_request(form, ElicitResult, metadata=related)
        except MCPError:
            return None
