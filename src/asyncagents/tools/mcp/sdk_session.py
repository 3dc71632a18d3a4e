"""A session with an MCP server on the official SDK; imported only when a server is to be reached."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client import IncomingMessage, Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from asyncagents.config.config import McpConfig
from asyncagents.domain.call.call import Completed, Effect, Failed
from asyncagents.domain.envelope import enclosed
from asyncagents.engine.workplace.mcp import Argument, Content, ReadyPrompt, Resource
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.connection import NEEDS_HEADER, UNAUTHORISED, Lost, Offer, Tail
from asyncagents.tools.mcp.content import contents_of, prompt_of, result_of
from asyncagents.tools.mcp.schema import enclose_schema
from asyncagents.tools.mcp.stdio import LONGEST, open_stdio
from asyncagents.tools.process.pipes import Piped

CONNECT_SECONDS = 30.0
MOST_PAGES = 50
MOST_LISTED = 1_000
MOST_DESCRIPTION = 10_000
# A restarted server does not know our session, and refuses a request with these before it does anything.
_REFUSED = {400, 404}
_UNKNOWN_SESSION = {types.INVALID_REQUEST, -32000, -32001}

# The SDK warns of failures that we log ourselves, with the server's name and what to do.
_sdk_log = logging.getLogger("mcp.client")
if _sdk_log.level == logging.NOTSET:
    _sdk_log.setLevel(logging.CRITICAL)

T = TypeVar("T")


class Wires(Struct, frozen=True, kw_only=True):
    """What a session reports while it is open."""

    tail: Tail
    ended: Callable[[str], None]
    changed: Callable[[], None]
    refused: Callable[[int], None]
    """Called with the status of an HTTP error."""


class Asked:
    """One HTTP request: the status of its error, if any, and whether it was never sent."""

    def __init__(self) -> None:
        self.status = 0
        self.stayed = False


# The SDK sends each request in the context of its caller, so a response finds its request here.
_asking: ContextVar[Asked | None] = ContextVar("asking", default=None)


class Http(httpx2.AsyncClient):
    """Records which requests were never sent because the connection failed."""

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            return await super().send(request, **how)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            asked = _asking.get()
            if asked is not None:
                asked.stayed = True
            raise


class Session:
    def __init__(self, server: str, client: Client) -> None:
        self._server = server
        self._client = client

    async def offers(self) -> tuple[Offer, ...]:
        if self._client.server_capabilities.tools is None:
            return ()
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._asked(self._client.list_tools(cursor=cursor, cache_mode="bypass"))
            tools += page.tools
            cursor = page.next_cursor
            if not cursor or len(tools) >= MOST_LISTED:
                break
        return tuple(sorted(map(_offer, tools[:MOST_LISTED]), key=lambda offer: offer.name))

    async def call(
        self, name: str, arguments: dict[str, Any], report: Callable[[dict[str, Any]], None]
    ) -> Completed | Failed:
        async def progress(progress: float, total: float | None, message: str | None) -> None:
            of = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            report({"output": f"{of}: {message}" if message else of})

        result = await self._asked(self._client.call_tool(name, arguments, progress_callback=progress))
        return result_of(result)

    async def resources(self) -> tuple[Resource, ...]:
        if self._client.server_capabilities.resources is None:
            return ()
        found: list[types.Resource] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._asked(self._client.list_resources(cursor=cursor, cache_mode="bypass"))
            found += page.resources
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_LISTED:
                break
        return tuple(self._resource(each) for each in sorted(found[:MOST_LISTED], key=lambda each: each.uri))

    def _resource(self, resource: types.Resource) -> Resource:
        return Resource(
            server=self._server,
            uri=resource.uri,
            name=resource.title or resource.name,
            description=resource.description or "",
            mime=resource.mime_type or "",
        )

    async def read(self, uri: str) -> tuple[Content, ...]:
        result = await self._asked(self._client.read_resource(uri, cache_mode="bypass"))
        return contents_of(result.contents)

    async def prompts(self) -> tuple[ReadyPrompt, ...]:
        if self._client.server_capabilities.prompts is None:
            return ()
        found: list[types.Prompt] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._asked(self._client.list_prompts(cursor=cursor, cache_mode="bypass"))
            found += page.prompts
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_LISTED:
                break
        return tuple(self._prompt(each) for each in sorted(found[:MOST_LISTED], key=lambda each: each.name))

    def _prompt(self, prompt: types.Prompt) -> ReadyPrompt:
        return ReadyPrompt(
            server=self._server,
            name=prompt.name,
            description=prompt.description or prompt.title or "",
            arguments=tuple(
                Argument(name=each.name, description=each.description or "", required=bool(each.required))
                for each in prompt.arguments or ()
            ),
        )

    async def prompt(self, name: str, arguments: dict[str, str]) -> tuple[Content, ...]:
        return prompt_of(await self._asked(self._client.get_prompt(name, arguments)))

    async def follow(self, changed: Callable[[], None]) -> None:
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tools = self._client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        async with self._client.listen(tools_list_changed=True) as subscription:
            async for _ in subscription:
                changed()

    async def _asked(self, answer: Awaitable[T]) -> T:
        asked = Asked()
        _asking.set(asked)
        try:
            return await answer
        except MCPError as error:
            raise _meant(error, asked) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise Lost("The connection was closed.", never_ran=asked.stayed) from error
        except ValidationError as error:
            raise ToolError(f"The answer is not what the protocol asks for: {_first(error)}.") from error
        except RuntimeError as error:
            raise ToolError(str(error)) from error


def _meant(error: MCPError, asked: Asked) -> ToolError:
    status = asked.status
    if error.code == types.CONNECTION_CLOSED:
        return Lost("The connection was closed.", never_ran=asked.stayed)
    if status in UNAUTHORISED:
        return ToolError(NEEDS_HEADER.format(status))
    unknown = error.code in _UNKNOWN_SESSION and "session" in error.message.lower()
    if status in _REFUSED and (unknown or error.code == types.INTERNAL_ERROR):
        return Lost("It does not know this session any more.", never_ran=True)
    if status and error.code == types.INTERNAL_ERROR:
        return ToolError(f"It answered with HTTP status {status}.")
    return ToolError(error.message)


@asynccontextmanager
async def open_session(
    server: str, config: McpConfig, wires: Wires, piped: Piped | None
) -> AsyncIterator[Session]:
    """Open a session: through the pipes of a local server, or by HTTP to a remote one."""

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            wires.changed()

    async with AsyncExitStack() as stack:
        if piped is None:
            transport: Transport = await _remote(config, wires, stack)
        else:
            transport = open_stdio(piped, wires.tail, wires.ended)
        client = Client(
            transport,
            message_handler=heard,
            client_info=types.Implementation(name="asyncagents", version=version("asyncagents")),
            cache=None,
        )
        yield Session(server, await stack.enter_async_context(client))


async def _remote(config: McpConfig, wires: Wires, stack: AsyncExitStack) -> Transport:
    assert config.url is not None, "a remote server has a url"

    async def look(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            wires.refused(response.status_code)
            asked = _asking.get()
            if asked is not None:
                asked.status = response.status_code

    http = Http(
        headers=config.headers,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        event_hooks={"response": [look]},
    )
    await stack.enter_async_context(http)
    return streamable_http_client(config.url, http_client=http, max_sse_event_size=LONGEST)


def is_unreachable(error: BaseException) -> bool:
    """Return whether the connection failed, so that nothing was sent."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def described(error: BaseException) -> str:
    """Describe an error in one sentence."""
    if isinstance(error, MCPError | ToolError):
        return f"{str(error).rstrip('.')}."
    if isinstance(error, httpx2.TransportError):
        return f"The connection broke ({type(error).__name__})."
    return f"{type(error).__name__}: {error}"


def _offer(tool: types.Tool) -> Offer:
    schema = enclose_schema({key: value for key, value in tool.input_schema.items() if key != "$schema"})
    return Offer(
        name=tool.name,
        description=enclosed((tool.description or tool.title or tool.name)[:MOST_DESCRIPTION]),
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


def _first(error: ValidationError) -> str:
    """Return path and message of the first validation error, without the input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
