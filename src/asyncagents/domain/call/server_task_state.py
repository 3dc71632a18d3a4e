"""What an MCP server says of a task when it is polled."""

from typing import Any, TypeAlias

from msgspec import Struct, field

from asyncagents.domain.call.call import Result


class ServerTaskWorking(Struct, frozen=True, kw_only=True):
    """The task goes on; with requests, only once a person has answered them."""

    poll_ms: int
    message: str = ""
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The parameters of its open elicitations, by the server's keys."""


class ServerTaskEnded(Struct, frozen=True):
    """The task is over, or its server does not know it."""

    result: Result


class ServerTaskUnreachable(Struct, frozen=True):
    """The server could not be asked."""

    why: str


ServerTaskState: TypeAlias = ServerTaskWorking | ServerTaskEnded | ServerTaskUnreachable
