"""What the sessions of one connection share."""

import asyncio
from typing import Any, Protocol

from msgspec import Raw, Struct

from asyncagents.acp.shape import ClientCapabilities
from asyncagents.client.server_link import ServerLink
from asyncagents.domain.id import Ids


class EditorConnection(Protocol):
    """The client at the other side."""

    @property
    def is_closed(self) -> bool: ...

    async def request(self, method: str, params: Any) -> Raw: ...

    async def notify(self, method: str, params: Any) -> None: ...


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the sessions of one connection share."""

    server: ServerLink
    """The server that runs the sessions."""
    connection: EditorConnection
    capabilities: ClientCapabilities
    ids: Ids
    answerer: str
    """Stored with answers: the name of the client program."""
    group: asyncio.TaskGroup
