"""The MCP server of `asyncagents serve`, at `/mcp-server`; the SDK is loaded with the first request."""

import asyncio
import logging
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

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_mcp_mount(runtime: Runtime, data: Path, directory: Path) -> AsyncIterator[Mount]:
    """Open the mount; its application is opened by the first request, and closed at the end of the block."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        lazy = LazyMcpApp(runtime, data, directory, group)
        try:
            yield Mount(path=PATH, app=lazy)
        except BaseException as error:  # noqa: BLE001  raised after the group, which would wrap it
            failure = error
        lazy.close()
    if failure is not None:
        raise failure


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
        self._failure = 501, NOT_INSTALLED

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._task is None and find_spec("mcp") is not None:
            self._task = self._group.create_task(self._run())
        if self._task is not None:
            await self._opened.wait()
        if self._app is not None:
            await self._app(scope, receive, send)
        else:
            await _send_refusal(send, *self._failure)

    def close(self) -> None:
        self._closing.set()

    async def _run(self) -> None:
        """Hold the application open; it must be closed by the task that opened it."""
        try:
            mcp_server = await asyncio.to_thread(import_module, "asyncagents.mcp_server.http")
            in_process = await asyncio.to_thread(import_module, "asyncagents.server.in_process")
            async with (
                in_process.open_in_process_client(self._runtime, self._data, str(self._directory)) as client,
                mcp_server.open_http_app(client, str(self._directory)) as self._app,
            ):
                self._opened.set()
                await self._closing.wait()
        except Exception:  # noqa: BLE001  the edge of the MCP server: all other routes go on
            _log.exception("action=serve path=%s the MCP server failed; start the server again", PATH)
            self._failure = 500, "the MCP server failed: the log of the server says why"
        finally:
            self._app = None
            self._opened.set()


async def _send_refusal(send: Any, status: int, message: str) -> None:
    refusal = error_response(status, message)
    headers = [(b"content-type", refusal.content_type.encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})
