"""The MCP server: its tools, its resources, and the extension for tasks."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import msgspec
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from msgspec import Struct

from asyncagents.errors import AsyncAgentsError, InvalidInput
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.caller import TASKS_EXTENSION, Caller
from asyncagents.mcp_server.resources import TaskResources, open_followers
from asyncagents.mcp_server.task_extension import TaskExtension
from asyncagents.mcp_server.tools import BY_NAME, RUN, AgentTool, ToolCall, ToolResult, describe_tools
from asyncagents.mcp_server.view import TaskView
from asyncagents.version import VERSION

NAME = "asyncagents"

Context = ServerRequestContext[Any, Any]
TasksOf = Callable[[Caller, Context], AgentTasks]
"""Returns the tasks that a client may see and change."""


def build_server(tasks_of: TasksOf, *, subscribes: bool = False) -> Server[Any]:
    """Build the server. Its tools, in a fixed order, work on the tasks of the client that calls them.

    `subscribes`: it has one connection, whose client may subscribe to resources; on protocols without
    connections a client listens to a stream instead.
    """
    handlers = Handlers(tasks_of)
    resources = TaskResources(handlers.tasks)
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title="asyncagents: durable background agents",
        instructions=(files(__package__) / "instructions.txt").read_text().strip(),
        lifespan=open_followers,
        get_tool_input_schema=_input_schema,
        on_list_tools=handlers.list_tools,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe if subscribes else None,
        on_unsubscribe_resource=resources.unsubscribe if subscribes else None,
        on_subscriptions_listen=resources.listen,
    )
    server.add_request_handler("tools/call", CallToolRequestParams, handlers.call_tool)
    extension = TaskExtension(handlers.tasks)
    for method in extension.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
    server.extensions[TASKS_EXTENSION] = {}
    return server


def _input_schema(name: str) -> dict[str, Any] | None:
    return next((tool.input_schema for tool in describe_tools() if tool.name == name), None)


class Handlers:
    """Handles the requests for tools."""

    def __init__(self, tasks_of: TasksOf) -> None:
        self._tasks_of = tasks_of

    def tasks(self, context: Context) -> AgentTasks:
        return self._tasks_of(Caller(context), context)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(describe_tools()))

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> HandlerResult:
        tool, caller = BY_NAME.get(params.name), Caller(context)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name!r}: use one of {', '.join(BY_NAME)}")
        call = ToolCall(
            tasks=self.tasks(context),
            caller=caller,
            answers=dict(params.input_responses or {}),
            state=params.request_state,
        )
        try:
            args = _convert_arguments(tool, params.arguments or {})
            if tool is RUN and caller.takes_tasks:
                return await TaskExtension.begin(call, args)
            return build_result(await tool.run(call, args), fails=tool is RUN)
        except AsyncAgentsError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)


def _convert_arguments(tool: AgentTool, arguments: dict[str, Any]) -> Any:
    try:
        return msgspec.convert(arguments, tool.args)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the arguments of {tool.name} are not valid: {error}") from error


def build_result(result: ToolResult, *, fails: bool) -> CallToolResult | InputRequiredResult:
    """Build the result of a call: the same JSON as text, and as structured content.

    `fails`: a failed task is an error of the call.
    """
    if not isinstance(result, Struct):
        return result
    text = msgspec.json.encode(result).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=msgspec.to_builtins(result),
        is_error=fails and isinstance(result, TaskView) and result.status == "failed",
    )
