"""A session with an MCP server on the official SDK; imported only when a server is to be reached."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client import IncomingMessage, Transport
from mcp.client.session import MessageHandlerFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from asyncagents.config.config import McpConfig
from asyncagents.domain.call.call import Completed, Effect, Failed
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.call.server_task_state import ServerTaskEnded, ServerTaskWorking
from asyncagents.domain.envelope import escape_tags
from asyncagents.domain.self_contained import inline_references
from asyncagents.engine.workplace.mcp import McpContent, McpPrompt, McpPromptArgument, McpResource
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.connection import (
    NEEDS_HEADER,
    UNAUTHORISED,
    LogTail,
    McpConnectionLost,
    ServerTool,
)
from asyncagents.tools.mcp.content import contents_of, prompt_of, result_of
from asyncagents.tools.mcp.schema import enclose_schema
from asyncagents.tools.mcp.stdio import MOST_LINE_BYTES, open_stdio
from asyncagents.tools.mcp.task_extension import (
    StartedTask,
    TasksExtension,
    offers_tasks,
    read_task,
    refuse_form,
    send_cancel,
    send_responses,
    server_task,
)
from asyncagents.tools.process.pipes import PipedProcess

CONNECT_SECONDS = 30.0
MOST_PAGES = 50
MOST_LISTED = 1_000
MOST_DESCRIPTION = 10_000
# A restarted server does not know our session, and refuses a request with these before it does anything.
_UNKNOWN_SESSION_STATUSES = {400, 404}
_UNKNOWN_SESSION_CODES = {types.INVALID_REQUEST, -32000, -32001}

# The SDK warns of failures that we log ourselves, with the server's name and what to do.
_sdk_log = logging.getLogger("mcp.client")
if _sdk_log.level == logging.NOTSET:
    _sdk_log.setLevel(logging.CRITICAL)

T = TypeVar("T")
Page = TypeVar("Page", bound=types.PaginatedResult)


class SessionCallbacks(Struct, frozen=True, kw_only=True):
    """What a session reports while it is open."""

    tail: LogTail
    on_end: Callable[[str], None]
    on_change: Callable[[], None]
    on_http_error: Callable[[int], None]
    """Called with the status of an HTTP error."""


class RequestStatus:
    """One HTTP request: the status of its error, if any, and whether it was never sent."""

    def __init__(self) -> None:
        self.status = 0
        self.never_sent = False


# The SDK sends each request in the context of its caller, so a response finds its request here.
_current_request: ContextVar[RequestStatus | None] = ContextVar("asking", default=None)


class McpHttpClient(httpx2.AsyncClient):
    """Records which requests were never sent because the connection failed."""

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            return await super().send(request, **how)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            request_status = _current_request.get()
            if request_status is not None:
                request_status.never_sent = True
            raise


class SdkSession:
    def __init__(self, server: str, client: Client) -> None:
        self._server = server
        self._client = client

    async def list_tools(self) -> tuple[ServerTool, ...]:
        if self._client.server_capabilities.tools is None:
            return ()
        tools = await self._read_pages(self._client.list_tools, lambda page: page.tools)
        return tuple(sorted(map(_build_tool, tools), key=lambda tool: tool.name))

    async def _read_pages(
        self, read: Callable[..., Awaitable[Page]], items_of: Callable[[Page], list[T]]
    ) -> list[T]:
        """Return the first `MOST_LISTED` items of a list."""
        found: list[T] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._await_answer(read(cursor=cursor, cache_mode="bypass"))
            found += items_of(page)
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_LISTED:
                break
        return found[:MOST_LISTED]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], report: Callable[[dict[str, Any]], None]
    ) -> Completed | Failed | ServerTask:
        async def progress(progress: float, total: float | None, message: str | None) -> None:
            of = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            report({"output": f"{of}: {message}" if message else of})

        try:
            result = await self._await_answer(
                self._client.call_tool(name, arguments, progress_callback=progress)
            )
        except StartedTask as started:
            return server_task(self._server, started.created)
        return result_of(result)

    async def task_state(self, task_id: str) -> ServerTaskWorking | ServerTaskEnded:
        return await self._await_answer(read_task(self._client, self._server, task_id))

    async def answer_task(self, task_id: str, responses: dict[str, dict[str, Any]]) -> None:
        await self._await_answer(send_responses(self._client, task_id, responses))

    async def cancel_task(self, task_id: str) -> None:
        await self._await_answer(send_cancel(self._client, task_id))

    async def list_resources(self) -> tuple[McpResource, ...]:
        if self._client.server_capabilities.resources is None:
            return ()
        found = await self._read_pages(self._client.list_resources, lambda page: page.resources)
        return tuple(self._build_resource(each) for each in sorted(found, key=lambda each: each.uri))

    def _build_resource(self, resource: types.Resource) -> McpResource:
        return McpResource(
            server=self._server,
            uri=resource.uri,
            name=resource.title or resource.name,
            description=resource.description or "",
            mime=resource.mime_type or "",
        )

    async def read_resource(self, uri: str) -> tuple[McpContent, ...]:
        result = await self._await_answer(self._client.read_resource(uri, cache_mode="bypass"))
        return contents_of(result.contents)

    async def list_prompts(self) -> tuple[McpPrompt, ...]:
        if self._client.server_capabilities.prompts is None:
            return ()
        found = await self._read_pages(self._client.list_prompts, lambda page: page.prompts)
        return tuple(self._build_prompt(each) for each in sorted(found, key=lambda each: each.name))

    def _build_prompt(self, prompt: types.Prompt) -> McpPrompt:
        return McpPrompt(
            server=self._server,
            name=prompt.name,
            description=prompt.description or prompt.title or "",
            arguments=tuple(
                McpPromptArgument(
                    name=each.name, description=each.description or "", required=bool(each.required)
                )
                for each in prompt.arguments or ()
            ),
        )

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[McpContent, ...]:
        return prompt_of(await self._await_answer(self._client.get_prompt(name, arguments)))

    async def follow_changes(self, changed: Callable[[], None]) -> None:
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = self._client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        async with self._client.listen(tools_list_changed=True) as subscription:
            async for _ in subscription:
                changed()

    async def _await_answer(self, answer: Awaitable[T]) -> T:
        request_status = RequestStatus()
        _current_request.set(request_status)
        try:
            return await answer
        except MCPError as error:
            raise _tool_error(error, request_status) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise McpConnectionLost(
                "The connection was closed.", never_ran=request_status.never_sent
            ) from error
        except ValidationError as error:
            raise ToolError(
                f"The answer is not what the protocol asks for: {_first_error(error)}."
            ) from error
        except RuntimeError as error:
            raise ToolError(str(error)) from error


def _tool_error(error: MCPError, request_status: RequestStatus) -> ToolError:
    status = request_status.status
    if error.code == types.CONNECTION_CLOSED:
        return McpConnectionLost("The connection was closed.", never_ran=request_status.never_sent)
    if status in UNAUTHORISED:
        return ToolError(NEEDS_HEADER.format(status))
    unknown = error.code in _UNKNOWN_SESSION_CODES and "session" in error.message.lower()
    if status in _UNKNOWN_SESSION_STATUSES and (unknown or error.code == types.INTERNAL_ERROR):
        return McpConnectionLost("It does not know this session any more.", never_ran=True)
    if status and error.code == types.INTERNAL_ERROR:
        return ToolError(f"It answered with HTTP status {status}.")
    return ToolError(error.message)


@asynccontextmanager
async def open_session(
    server: str, config: McpConfig, callbacks: SessionCallbacks, piped: PipedProcess | None
) -> AsyncIterator[SdkSession]:
    """Open a session: through the pipes of a local server, or by HTTP to a remote one."""

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            callbacks.on_change()

    async with AsyncExitStack() as stack:
        if piped is None:
            http = await stack.enter_async_context(_http_client(config, callbacks))
            connect: Callable[[], Transport] = partial(_connect_http, config, http)
        else:
            connect = partial(open_stdio, piped, callbacks.tail, callbacks.on_end)
        yield SdkSession(server, await _enter_client(stack, connect, on_message))


async def _enter_client(
    stack: AsyncExitStack,
    connect: Callable[[], Transport],
    on_message: MessageHandlerFnT,
) -> Client:
    """Enter a client of a server. One that offers tasks is entered anew: only such a server is told that we
    take tasks, and forms of them."""
    client_info = types.Implementation(name="asyncagents", version=version("asyncagents"))
    client = Client(connect(), message_handler=on_message, client_info=client_info, cache=None)
    first = await stack.enter_async_context(AsyncExitStack())
    await first.enter_async_context(client)
    if not offers_tasks(client):
        return client
    known, modern = client.session.discover_result, client.protocol_version
    await first.aclose()
    client = Client(
        connect(),
        message_handler=on_message,
        client_info=client_info,
        cache=None,
        mode=modern,
        prior_discover=known,
        extensions=[TasksExtension()],
        elicitation_callback=refuse_form,
    )
    return await stack.enter_async_context(client)


def _http_client(config: McpConfig, callbacks: SessionCallbacks) -> McpHttpClient:

    async def record_status(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            callbacks.on_http_error(response.status_code)
            request_status = _current_request.get()
            if request_status is not None:
                request_status.status = response.status_code

    return McpHttpClient(
        headers=config.headers,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        event_hooks={"response": [record_status]},
    )


def _connect_http(config: McpConfig, http: McpHttpClient) -> Transport:
    assert config.url is not None, "a remote server has a url"
    return streamable_http_client(config.url, http_client=http, max_sse_event_size=MOST_LINE_BYTES)


def is_unreachable(error: BaseException) -> bool:
    """Return whether the connection failed, so that nothing was sent."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def describe_error(error: BaseException) -> str:
    """Describe an error in one sentence."""
    if isinstance(error, MCPError | ToolError):
        return f"{str(error).rstrip('.')}."
    if isinstance(error, httpx2.TransportError):
        return f"The connection broke ({type(error).__name__})."
    return f"{type(error).__name__}: {error}"


def _build_tool(tool: types.Tool) -> ServerTool:
    given = {key: value for key, value in tool.input_schema.items() if key != "$schema"}
    schema = inline_references(enclose_schema(given))
    return ServerTool(
        name=tool.name,
        description=escape_tags((tool.description or tool.title or tool.name)[:MOST_DESCRIPTION]),
        parameters={"type": "object", "properties": {}, **schema},
        effect=_effect(tool.annotations),
    )


def _effect(hints: types.ToolAnnotations | None) -> Effect:
    """Map the server's hints to an effect; without hints a second run may do harm."""
    if hints is None:
        return "once"
    if hints.read_only_hint:
        return "none"
    return "idempotent" if hints.idempotent_hint else "once"


def _first_error(error: ValidationError) -> str:
    """Return path and message of the first validation error, without the input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
