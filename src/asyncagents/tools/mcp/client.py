"""The client of one MCP server: connects when needed, and again after a loss; a task holds the connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from asyncagents.config.config import McpConfig
from asyncagents.config.file.hide import command_secrets, url_secrets
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.connection import (
    NEEDS_HEADER,
    UNAUTHORISED,
    LogTail,
    McpConnection,
    McpConnectionLost,
    ServerTool,
)
from asyncagents.tools.process.pipes import PipedProcess, open_piped_process
from asyncagents.tools.process.processes import Processes

START_SECONDS = 60.0
"""How long a server may take to start: some download themselves first."""
CLOSE_SECONDS = 5.0
MOST_RETRY_SECONDS = 60.0
NOT_INSTALLED = "the MCP client is not installed: run `pip install 'asyncagents[mcp]'`"

_log = logging.getLogger(__name__)
T = TypeVar("T")


class ServerSpec(Struct, frozen=True, kw_only=True):
    """A server as configured for one directory."""

    name: str
    config: McpConfig
    folder: Path
    variables: Mapping[str, str]

    def __repr__(self) -> str:
        """Show the name alone: the other fields may hold keys."""
        return f"ServerSpec({self.name!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        config = self.config
        given = (*config.environment.values(), *config.headers.values(), *command_secrets(config.command))
        return (*given, *(value.split()[-1] for value in given if value.split()), *url_secrets(config.url))


class McpClient:
    def __init__(self, spec: ServerSpec, *, group: asyncio.TaskGroup, output: Path) -> None:
        self.spec = spec
        self.tail = LogTail(spec.secrets)
        self.tools: tuple[ServerTool, ...] = ()
        """The last known tools, also while disconnected."""
        self.version = 0
        self.begun_at: float | None = None
        self.failure = ""
        """Why the server is not connected; empty if it is, or was never tried."""
        self.first_try_done = asyncio.Event()
        self._group = group
        self._output = output
        self._task: asyncio.Task[None] | None = None
        self._connection: McpConnection | None = None
        self._connect_done = asyncio.Event()
        self._wake = asyncio.Event()
        self._tools_changed = self._is_over = self._is_stopping = False
        self._end_reason = ""
        self._http_status = 0
        self._failures = 0
        self._retry_at = 0.0
        self._open_requests = 0

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def _timeout(self) -> float:
        return self.spec.config.timeout_seconds or START_SECONDS

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        """Start the connection task, unless it runs or waits after a failure."""
        now = asyncio.get_running_loop().time()
        if self._is_stopping or now < self._retry_at or (self._task is not None and not self._task.done()):
            return
        if self.begun_at is None:
            self.begun_at = now
        self._connect_done.clear()
        self._wake.clear()
        self._tools_changed = self._is_over = False
        self._end_reason, self._http_status = "", 0
        self._task = self._group.create_task(self._run_connection())

    def stop(self) -> None:
        """Stop once open requests have ended; cancel a connection that is still starting."""
        self._is_stopping = True
        self.failure = "It is not wanted any more, or was configured anew: call it again."
        self._wake.set()
        if self._task is not None and not self._connect_done.is_set():
            self._task.cancel()

    def failure_text(self) -> str:
        """Return the text for model and people: which server, why, and what to do."""
        wait = self._retry_at - asyncio.get_running_loop().time()
        again = f" It is tried again in {wait:.0f} s." if wait >= 1 else ""
        lines = "".join(f"\n  {line}" for line in self.tail.lines[-5:])
        note = f"\nIt last said:{lines}" if lines else ""
        return f'MCP server "{self.name}" cannot be used: {self.failure}{again} Go on without it.{note}'

    async def call_tool(
        self, tool: ServerTool, arguments: dict[str, Any], context: ToolContext
    ) -> Completed | Failed | ServerTask:
        """Call a tool; if the connection is lost, call it again only if that does no harm."""
        harmless = tool.effect != "once"
        try:
            return await self._request_with_retry(
                lambda connection: connection.call_tool(tool.name, arguments, context.report), again=harmless
            )
        except McpConnectionLost as lost:
            if harmless or lost.never_ran:
                return Failed(self.failure_text())
            return Failed(
                f'MCP server "{self.name}" was lost while this call ran, so whether it took effect is '
                f"unknown. Check before you do it again. {self.failure}",
                metadata={"inDoubt": True},
            )

    async def request(self, question: Callable[[McpConnection], Awaitable[T]]) -> T:
        """Make a request without side effects, and repeat it once after a loss. Raises `ToolError`."""
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._request_with_retry(question, again=True)
        except McpConnectionLost as lost:
            raise ToolError(self.failure_text()) from lost
        except TimeoutError as error:
            raise ToolError(f'MCP server "{self.name}" did not answer within {self._timeout:g} s.') from error

    async def _request_with_retry(
        self, question: Callable[[McpConnection], Awaitable[T]], *, again: bool
    ) -> T:
        try:
            return await self._request_once(question)
        except McpConnectionLost as lost:
            if not (again or lost.never_ran):
                raise
        return await self._request_once(question)

    async def _request_once(self, question: Callable[[McpConnection], Awaitable[T]]) -> T:
        connection = await self._connect()
        self._open_requests += 1
        try:
            answer = await question(connection)
        except McpConnectionLost:
            await self._drop_connection(connection)
            raise
        except ToolError:
            self._failures = 0
            raise
        finally:
            self._open_requests -= 1
            self._wake.set()
        self._failures = 0
        return answer

    async def _connect(self) -> McpConnection:
        if self._connection is None:
            if self._task is not None and self._connect_done.is_set():
                await asyncio.wait({self._task})
            self.start()
            if not self._is_stopping:
                await self._connect_done.wait()
        if self._connection is None:
            raise ToolError(self.failure_text())
        return self._connection

    async def _drop_connection(self, connection: McpConnection) -> None:
        """Drop a lost connection, and wait until its task has cleaned up and recorded why."""
        if self._connection is connection:
            self._connection, self._is_over = None, True
            self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run_connection(self) -> None:
        """Run one connection from start to end; no failure of the server leaves this task."""
        limit = asyncio.timeout(None)
        try:
            async with limit, self._open_connection(limit) as connection:
                await self._load_tools(connection)
                limit.reschedule(None)
                await self._serve_connection(connection)
                limit.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)
            self._record_failure(self._end_reason or "The connection was closed.")
        except TimeoutError:
            self._record_failure(self._end_reason or f"It did not answer within {self._timeout:g} s.")
        except Exception as error:  # noqa: BLE001  the edge of a server
            self._record_failure(self._error_text(_first_error(error)))
        finally:
            self._connection = None
            self._connect_done.set()
            self.first_try_done.set()

    @asynccontextmanager
    async def _open_connection(self, limit: asyncio.Timeout) -> AsyncIterator[McpConnection]:
        if find_spec("mcp") is None:
            raise ModuleNotFoundError(NOT_INSTALLED)
        async with AsyncExitStack() as stack:
            piped = await self._start_process(stack)
            # Slow to import: done in a thread while the server starts.
            sdk = await asyncio.to_thread(_load_sdk)
            limit.reschedule(asyncio.get_running_loop().time() + self._timeout)
            wires = sdk.SessionCallbacks(
                tail=self.tail,
                on_end=self._on_end,
                on_change=self._on_change,
                on_http_error=self._on_http_error,
            )
            session = sdk.open_session(self.name, self.spec.config, wires, piped)
            yield await stack.enter_async_context(session)

    async def _start_process(self, stack: AsyncExitStack) -> PipedProcess | None:
        if self.spec.config.type == "remote":
            return None
        processes = Processes(self.spec.variables, folder=self._output, root=self.spec.folder)
        started = open_piped_process(processes, self.spec.config.command, cwd=self.spec.folder)
        return await stack.enter_async_context(started)

    async def _serve_connection(self, connection: McpConnection) -> None:
        """Serve requests until the connection is over, or stopped with no open request."""
        self._connection, self.failure, self._http_status = connection, "", 0
        self._connect_done.set()
        self.first_try_done.set()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(_follow_changes(connection, self._on_change))
            while not self._is_over and (not self._is_stopping or self._open_requests):
                await self._wake.wait()
                self._wake.clear()
                if self._tools_changed:
                    self._tools_changed = False
                    await self._reload_tools(connection)
            self._connection = None
            following.cancel()

    async def _reload_tools(self, connection: McpConnection) -> None:
        """Load the tools again; keep the known ones if the server does not list them."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._load_tools(connection)
        except McpConnectionLost:
            self._is_over = True
        except (ToolError, TimeoutError) as error:
            _log.warning("action=list_tools mcp_server=%s: %s", self.name, error)

    async def _load_tools(self, connection: McpConnection) -> None:
        offers = await connection.list_tools()
        if offers != self.tools:
            self.tools = offers
            self.version += 1

    def _record_failure(self, why: str) -> None:
        if self._is_stopping:
            return
        self.failure = replace_surrogates(self.tail.redact(why))
        self._failures += 1
        pause = 0.0 if self._failures == 1 else min(MOST_RETRY_SECONDS, 2.0 ** (self._failures - 2))
        self._retry_at = asyncio.get_running_loop().time() + pause
        _log.warning("action=connect mcp_server=%s: %s", self.name, self.failure)

    def _error_text(self, error: BaseException) -> str:
        if isinstance(error, ImportError):
            return f"{NOT_INSTALLED}."
        if self._end_reason:
            return self._end_reason
        if self._http_status in UNAUTHORISED:
            return NEEDS_HEADER.format(self._http_status)
        if _load_sdk().is_unreachable(error):
            return "Nobody answers at its address: check its url, or start it."
        if self._http_status:
            return f"It answered with HTTP status {self._http_status}."
        return str(_load_sdk().describe_error(error))

    def _on_end(self, why: str) -> None:
        self._end_reason, self._is_over = why, True
        self._connection = None
        self._wake.set()

    def _on_change(self) -> None:
        self._tools_changed = True
        self._wake.set()

    def _on_http_error(self, status: int) -> None:
        self._http_status = status


async def _follow_changes(connection: McpConnection, changed: Callable[[], None]) -> None:
    """Follow changes of the tools; a failure is only logged, since the next start loads all tools."""
    try:
        await connection.follow_changes(changed)
    except Exception as error:  # noqa: BLE001  the edge of a server
        _log.debug("action=follow_changes: an MCP server sends no changes of its tools", exc_info=error)


def _load_sdk() -> Any:
    return import_module("asyncagents.tools.mcp.sdk_session")


def _first_error(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
