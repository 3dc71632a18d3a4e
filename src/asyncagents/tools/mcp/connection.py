"""The protocol of a connection to an MCP server: its tools, requests, and the error when it is lost."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from asyncagents.domain.call.call import Completed, Effect, Failed
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.call.server_task_state import ServerTaskEnded, ServerTaskWorking
from asyncagents.engine.workplace.mcp import McpContent, McpPrompt, McpResource
from asyncagents.errors import ToolError

TAIL_LINES = 20
TAIL_LINE_CHARS = 500
SHORTEST_SECRET = 8
UNAUTHORISED = frozenset({401, 403})
NEEDS_HEADER = (
    "It answered with HTTP status {}: set a header that it accepts under `headers` in its configuration."
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool of a server, under the server's own name for it."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = "once"


class McpConnectionLost(ToolError):
    """The connection was lost; unless `never_ran`, the request may have taken effect."""

    def __init__(self, why: str, *, never_ran: bool = False) -> None:
        super().__init__(why)
        self.never_ran = never_ran


class McpConnection(Protocol):
    """Requests to one server. Each raises `McpConnectionLost`, or `ToolError` if the server refuses."""

    async def list_tools(self) -> tuple[ServerTool, ...]: ...

    async def call_tool(
        self, name: str, arguments: dict[str, Any], report: Callable[[dict[str, Any]], None]
    ) -> Completed | Failed | ServerTask: ...

    async def task_state(self, task_id: str) -> ServerTaskWorking | ServerTaskEnded: ...

    async def answer_task(self, task_id: str, responses: dict[str, dict[str, Any]]) -> None: ...

    async def cancel_task(self, task_id: str) -> None: ...

    async def list_resources(self) -> tuple[McpResource, ...]: ...

    async def read_resource(self, uri: str) -> tuple[McpContent, ...]: ...

    async def list_prompts(self) -> tuple[McpPrompt, ...]: ...

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[McpContent, ...]: ...

    async def follow_changes(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the list of tools changes, for servers that need a subscription."""
        ...


class LogTail:
    """The last lines that a server wrote to stderr, with secrets redacted."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = sorted(
            {each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True
        )
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._rest = ""

    def feed(self, text: str) -> None:
        """Add text and keep its last lines; redact before the cut, which could leave part of a secret."""
        *lines, rest = self.redact(self._rest + text)[-TAIL_LINES * TAIL_LINE_CHARS :].split("\n")
        self._rest = rest[-TAIL_LINE_CHARS:]
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        line = _CONTROL.sub(" ", line).strip()
        if line:
            self._lines.append(self.redact(line)[:TAIL_LINE_CHARS])

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    @property
    def lines(self) -> tuple[str, ...]:
        rest = self.redact(_CONTROL.sub(" ", self._rest).strip())
        return (*self._lines, rest) if rest else tuple(self._lines)
