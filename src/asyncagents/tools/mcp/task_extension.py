"""The extension of MCP by which a server answers a call with a task; imported only with the SDK."""

from typing import Any, ClassVar, Literal, NoReturn, TypeVar

import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field, ValidationError

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.server_task import MAX_ID_CHARS, ServerTask, bounded_poll_ms
from asyncagents.domain.call.server_task_state import ServerTaskEnded, ServerTaskWorking
from asyncagents.domain.envelope import one_line
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.content import result_of

TASKS = "io.modelcontextprotocol/tasks"
MOST_MESSAGE = 500
ELICITATION = "elicitation/create"
NO_FORM_HERE = "a person can be asked only by a call that is answered with a task"
UNKNOWN_TASK = (
    "The MCP server {server!r} does not know the task {task!r} any more: it may have been kept for a limited "
    "time only, or was lost. Whether the call took effect is unknown. Check before you do it again."
)
NO_USABLE_ID = (
    "The MCP server answered with a task without a usable id, so its result cannot be had. "
    "Whether the call takes effect is unknown. Check before you do it again."
)
BROKEN_RESULT = (
    "The MCP server {server!r} has completed the task, but its result is not what the protocol asks for."
)
NO_TASKS_NOW = "It does not offer tasks at the moment."

R = TypeVar("R", bound=types.Result)


class CreatedTask(types.Result):
    """The answer to a call that a task works on."""

    model_config = ConfigDict(populate_by_name=True, extra="allow")
    result_type: Literal["task"] = Field(default="task", alias="resultType")
    task_id: str = Field(alias="taskId")
    poll_interval_ms: int | None = Field(default=None, alias="pollIntervalMs")


class StartedTask(Exception):
    """Carries the task through the SDK, which would wait for the result here."""

    def __init__(self, created: CreatedTask) -> None:
        super().__init__(created.task_id)
        self.created = created


class TasksExtension(ClientExtension):
    identifier = TASKS

    def claims(self) -> tuple[ResultClaim[CreatedTask]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_raise_started),)


async def _raise_started(created: CreatedTask, context: ClaimContext) -> NoReturn:
    raise StartedTask(created)


async def refuse_form(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ErrorData:
    """Refuse a form outside a task: the call would have to wait for a person in this process."""
    return types.ErrorData(code=types.INVALID_REQUEST, message=NO_FORM_HERE)


def offers_tasks(client: Client) -> bool:
    declared = client.server_capabilities.extensions or {}
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS and TASKS in declared


def server_task(server: str, created: CreatedTask) -> ServerTask | Failed:
    task_id = created.task_id
    if not 0 < len(task_id) <= MAX_ID_CHARS or replace_surrogates(task_id) != task_id or "\0" in task_id:
        return Failed(NO_USABLE_ID, metadata={"inDoubt": True})
    return ServerTask(server=server, id=task_id, poll_ms=bounded_poll_ms(created.poll_interval_ms))


class _TaskParams(types.RequestParams):
    task_id: str = Field(serialization_alias="taskId")


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any] = Field(serialization_alias="inputResponses")


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param: ClassVar[str | None] = "taskId"


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param: ClassVar[str | None] = "taskId"


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param: ClassVar[str | None] = "taskId"


class _TaskReport(types.Result):
    model_config = ConfigDict(populate_by_name=True, extra="allow")
    status: str
    status_message: str | None = Field(default=None, alias="statusMessage")
    poll_interval_ms: int | None = Field(default=None, alias="pollIntervalMs")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    requests: dict[str, dict[str, Any]] | None = Field(default=None, alias="inputRequests")


async def read_task(client: Client, server: str, task_id: str) -> ServerTaskWorking | ServerTaskEnded:
    """Ask for the state of a task. Raises `MCPError` or `ToolError` if the server cannot say."""
    _check_offered(client)
    request = _GetTask(params=_TaskParams(task_id=task_id))
    try:
        report = await client.session.send_request(request, _TaskReport)
    except MCPError as error:
        if error.code != types.INVALID_PARAMS:
            raise
        why = UNKNOWN_TASK.format(server=server, task=one_line(task_id))
        said = one_line(replace_surrogates(error.message))
        return ServerTaskEnded(Failed(f"{why} It says: {said}", metadata={"inDoubt": True}))
    return _state_of(report, server)


def _state_of(report: _TaskReport, server: str) -> ServerTaskWorking | ServerTaskEnded:
    message = replace_surrogates(report.status_message or "")
    match report.status:
        case "completed":
            return ServerTaskEnded(_read_result(report, server))
        case "failed":
            error = replace_surrogates(
                str((report.error or {}).get("message") or message or "without reason")
            )
            return ServerTaskEnded(Failed(f"The task of the MCP server {server!r} failed: {error}"))
        case "cancelled":
            why = f": {message}" if message else "."
            return ServerTaskEnded(Failed(f"The MCP server {server!r} cancelled the task{why}"))
        case "working" | "input_required":
            return ServerTaskWorking(
                poll_ms=bounded_poll_ms(report.poll_interval_ms),
                message=one_line(message, most=MOST_MESSAGE),
                requests=_forms(report) if report.status == "input_required" else {},
            )
        case other:
            raise ToolError(f"Its task has the status {one_line(other)!r}, which the protocol does not have.")


def _read_result(report: _TaskReport, server: str) -> Completed | Failed:
    try:
        return result_of(types.CallToolResult.model_validate(report.result))
    except ValidationError:
        return Failed(BROKEN_RESULT.format(server=server))


def _forms(report: _TaskReport) -> dict[str, dict[str, Any]]:
    """Return the parameters of the requests; one that is no form gets its method as the mode."""
    forms: dict[str, dict[str, Any]] = {}
    for key, request in (report.requests or {}).items():
        params, method = request.get("params"), request.get("method")
        is_form = method == ELICITATION and isinstance(params, dict)
        forms[key] = params if is_form and isinstance(params, dict) else {"mode": str(method)}
    cleaned: dict[str, dict[str, Any]] = replace_surrogates_in(forms)
    return cleaned


async def send_responses(client: Client, task_id: str, responses: dict[str, dict[str, Any]]) -> None:
    """Send the responses to forms. A server that does not know the task says so at the next poll."""
    params = _UpdateParams(task_id=task_id, input_responses=responses)
    await _send_known(client, _UpdateTask(params=params))


async def send_cancel(client: Client, task_id: str) -> None:
    """Ask the server to cancel a task; one that it does not know needs no cancel."""
    await _send_known(client, _CancelTask(params=_TaskParams(task_id=task_id)))


def _check_offered(client: Client) -> None:
    """Raise `ToolError` if the server offers no tasks any more: it cannot say what became of one."""
    if not offers_tasks(client):
        raise ToolError(NO_TASKS_NOW)


async def _send_known(client: Client, request: types.Request[Any, Any]) -> None:
    _check_offered(client)
    try:
        await client.session.send_request(request, types.EmptyResult)
    except MCPError as error:
        if error.code != types.INVALID_PARAMS:
            raise
