"""The MCP server of `asyncagents serve`, at `/mcp-server`; the SDK is loaded with the first request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.server.http.messages import error_response
from asyncagents.server.mount import Mount

PATH = "/mcp-server"
NOT_INSTALLED = (
    "the MCP server is not installed: run `pip install 'asyncagents[mcp]'` and start the server again"
)


@asynccontextmanager
async def open_mcp_mount(runtime: Runtime, data: Path, directory: Path) -> AsyncIterator[Mount]:
    """Open the mount; its application is opened by the first request, and closed at the end of the block."""
    async with asyncio.TaskGroup() as group:
        lazy = LazyMcpApp(runtime, data, directory, group)
        yield Mount(path=PATH, app=lazy)
        lazy.close()


class LazyMcpApp:
    def __init__(self, runtime: Runtime, data: Path, directory: Path, group: asyncio.TaskGroup) -> None:
        self._runtime = runtime
        self._data = data
        self._directory = directory
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if find_spec("mcp") is None:
            refusal = error_response(501, NOT_INSTALLED)
            headers = [(b"content-type", refusal.content_type.encode())]
            await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
            await send({"type": "http.response.body", "body": refusal.body})
            return
        if self._task is None:
            self._task = self._group.create_task(self._run())
        await self._opened.wait()
        await self._app(scope, receive, send)

    def close(self) -> None:
        self._closing.set()

    async def _run(self) -> None:
        """Hold the application open; it must be closed by the task that opened it."""
        mcp_server = await asyncio.to_thread(import_module, "asyncagents.mcp_server.http")
        in_process = await asyncio.to_thread(import_module, "asyncagents.server.in_process")
        async with (
            in_process.open_in_process_client(self._runtime, self._data, str(self._directory)) as client,
            mcp_server.open_http_app(client, str(self._directory)) as self._app,
        ):
            self._opened.set()
            await self._closing.wait()
