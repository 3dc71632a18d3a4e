"""The extension `io.modelcontextprotocol/tasks`: a call of `agent_run` becomes a task of the client."""

from collections.abc import Callable
from typing import Any

import msgspec
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RequestParams
from msgspec import Struct
from pydantic import ConfigDict, Field

from asyncagents.domain.task.view import iso_time
from asyncagents.errors import AsyncAgentsError, NotFound, RequestError
from asyncagents.mcp_server.agent_tasks import AgentTasks, Launch
from asyncagents.mcp_server.asking import answer_forms, build_requests
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.tools import AgentRunArgs, ToolCall
from asyncagents.mcp_server.view import TaskView

POLL_MS = 1_000
TTL_MS = 30 * 24 * 3_600_000
"""A task is kept until its session is deleted; clients are told the retention of settled calls."""

Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses")


class TaskCall(Struct, frozen=True):
    """A request about a task: the tasks it may touch, and the client that makes it."""

    tasks: AgentTasks
    caller: Caller


class TaskExtension:
    """Answers requests about tasks; their ids are those of sessions."""

    def __init__(self, tasks_of: Callable[[Context], AgentTasks]) -> None:
        self._tasks_of = tasks_of

    def methods(self) -> tuple[MethodBinding, ...]:
        return (
            MethodBinding("tasks/get", TaskParams, self._for_modern(self.get)),
            MethodBinding("tasks/update", UpdateParams, self._for_modern(self.update)),
            MethodBinding("tasks/cancel", TaskParams, self._for_modern(self.cancel)),
        )

    def _for_modern(self, handle: Callable[[TaskCall, Any], Any]) -> Any:
        """Refuse protocols without the extension, and turn errors into those of the protocol."""

        async def handle_request(context: Context, params: Any) -> HandlerResult:
            caller = Caller(context)
            if not caller.is_modern:
                raise MCPError(METHOD_NOT_FOUND, "tasks need the protocol 2026-07-28")
            try:
                return dict(await handle(TaskCall(self._tasks_of(context), caller), params))
            except NotFound as error:
                raise MCPError(INVALID_PARAMS, str(error)) from error
            except AsyncAgentsError as error:
                code = INVALID_PARAMS if isinstance(error, RequestError) else INTERNAL_ERROR
                raise MCPError(code, str(error)) from error

        return handle_request

    @staticmethod
    async def begin(call: ToolCall, args: AgentRunArgs) -> dict[str, Any]:
        """Launch the task of a call and return it; it is durable before that."""
        new = Launch(prompt=args.prompt, agent=args.agent, description=args.description, key=args.key)
        fields = _task_fields(await call.tasks.launch(new))
        return {**fields, "status": "working", "resultType": "task"}  # `tasks/get` tells how it ended

    async def get(self, call: TaskCall, params: TaskParams) -> dict[str, Any]:
        view = await call.tasks.view(params.task_id)
        fields = _task_fields(view)
        match view.status:
            case "completed" | "failed":  # `failed` would mean an error of the protocol
                fields |= {"status": "completed", "result": _call_result(view)}
            case "input_required" if call.caller.fills_forms:
                requests = await build_requests(call.tasks, view.task_id)
                fields["inputRequests"] = {
                    ask_id: form.model_dump(by_alias=True, mode="json", exclude_none=True)
                    for ask_id, form in requests.items()
                }
            case _:
                pass
        return {**fields, "resultType": "complete"}

    async def update(self, call: TaskCall, params: UpdateParams) -> dict[str, Any]:
        await answer_forms(call.tasks, params.task_id, params.input_responses)
        return {"resultType": "complete"}

    async def cancel(self, call: TaskCall, params: TaskParams) -> dict[str, Any]:
        await call.tasks.cancel(params.task_id)
        return {"resultType": "complete"}


def _task_fields(view: TaskView) -> dict[str, Any]:
    return {
        "taskId": view.task_id,
        "status": view.status,
        "statusMessage": view.message,
        "createdAt": iso_time(view.created_at),
        "lastUpdatedAt": iso_time(view.updated_at),
        "ttlMs": TTL_MS,
        "pollIntervalMs": POLL_MS,
    }


def _call_result(view: TaskView) -> dict[str, Any]:
    text = msgspec.json.encode(view).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": msgspec.to_builtins(view),
        "isError": view.status == "failed",
        "resultType": "complete",
    }
