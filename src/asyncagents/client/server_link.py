"""The connection to the server that runs the sessions; a server that died is started again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

from asyncagents.client.client import Client
from asyncagents.client.transport import ServerUnreachable

T = TypeVar("T")


class ServerConnector(Protocol):
    """Finds the server of the data directory, or starts one."""

    async def connect(self, directory: Path | None) -> Client:
        """Return a client of the server; called once. A new server reads its configuration in `directory`."""
        ...

    async def restore(self) -> None:
        """Find or start the server again, after it could not be reached."""
        ...


class FixedConnector:
    """Connects to one client, whose server is not started again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def connect(self, directory: Path | None) -> Client:
        return self._client

    async def restore(self) -> None:
        pass


class ServerLink:
    """A client that is opened when it is first needed."""

    def __init__(self, connector: ServerConnector) -> None:
        self._connector = connector
        self._client: Client | None = None
        self._directory: Path | None = None
        self._lock = asyncio.Lock()

    def prefer_directory(self, directory: Path) -> None:
        """Start a server, if one is needed, with the configuration of the first directory that works."""
        if self._client is None:
            self._directory = directory

    async def client(self) -> Client:
        async with self._lock:
            if self._client is None:
                self._client = await self._connector.connect(self._directory)
        return self._client

    async def call(self, action: Callable[[Client], Awaitable[T]]) -> T:
        """Perform an action that may be repeated; once more if the server had to be started again."""
        client = await self.client()
        try:
            return await action(client)
        except ServerUnreachable:
            await self.restore()
            return await action(client)

    async def restore(self) -> None:
        async with self._lock:
            await self._connector.restore()
