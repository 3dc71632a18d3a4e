"""An MCP client in memory: the official SDK's client before our MCP server, on a runtime of this process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.session import MessageHandlerFnT
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    Request,
    RequestParams,
    Result,
)
from pydantic import ConfigDict, Field

from asyncagents.client import client as product
from asyncagents.client.server_link import FixedConnector, ServerLink
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.caller import Caller
from asyncagents.mcp_server.server import Context, build_server

Json: TypeAlias = dict[str, Any]
Mode: TypeAlias = Literal["legacy", "auto"]
MODES: tuple[Mode, ...] = ("legacy", "auto")
"""The protocol with a handshake, and the one without."""
TASKS = "io.modelcontextprotocol/tasks"


class Person:
    """Answers forms, in the order given; keeps what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = list(answers)
        self.asked: list[ElicitRequestParams] = []

    async def answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


def fill(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


class CreatedTask(Result):
    model_config = ConfigDict(populate_by_name=True, extra="allow")
    result_type: Literal["task"] = Field("task", alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


class TaskTaker(ClientExtension):
    """Declares the extension for tasks; the caller follows a task itself."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._refuse)]

    async def _refuse(self, created: CreatedTask, context: Any) -> CallToolResult:
        raise AssertionError("a task is followed by the test")


class TaskParams(RequestParams):
    model_config = ConfigDict(populate_by_name=True, extra="allow")
    task_id: str = Field(alias="taskId")


class TaskRequest(Request[TaskParams, str]):
    method: str
    params: TaskParams


class TaskAnswer(Result):
    model_config = ConfigDict(extra="allow")


@asynccontextmanager
async def open_mcp_client(
    client: product.Client,
    directory: Path,
    *,
    mode: Mode = "auto",
    person: Person | None = None,
    extensions: Sequence[ClientExtension] = (),
    may_allow: bool = False,
    messages: MessageHandlerFnT | None = None,
) -> AsyncIterator[Client]:
    """Open a client of the sessions of `directory`. Without a `person` it shows no forms."""
    link = ServerLink(FixedConnector(client))

    def tasks_of(caller: Caller, context: Context) -> AgentTasks:
        return AgentTasks(link, str(directory), client_name=caller.name, may_allow=may_allow)

    async with Client(
        build_server(tasks_of, subscribes=True),
        mode=mode,
        elicitation_callback=person.answer if person is not None else None,
        extensions=extensions,
        message_handler=messages,
    ) as opened:
        yield opened


async def call_tool(client: Client, name: str, **arguments: Any) -> Json:
    """Call a tool that must succeed; return its structured content."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    found: Json = result.structured_content
    return found


async def fail_tool(client: Client, name: str, **arguments: Any) -> str:
    """Call a tool that must fail; return its error."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


async def launch_task(client: Client, **arguments: Any) -> CreatedTask:
    """Call `agent_run` of a client with the extension for tasks."""
    created = await client.session.call_tool("agent_run", arguments, allow_claimed=True)
    assert isinstance(created, CreatedTask), created
    return created


async def request_task(client: Client, method: str, task_id: str, **more: Any) -> Json:
    """Send `tasks/get`, `tasks/update` or `tasks/cancel`."""
    params = TaskParams(taskId=task_id, **more)
    answer = await client.session.send_request(TaskRequest(method=method, params=params), TaskAnswer)
    return answer.model_extra or {}
