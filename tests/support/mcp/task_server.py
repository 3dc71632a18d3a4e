"""A program: an MCP server whose tool answers with tasks, by stdio or (with a port) by streamable HTTP.

Its tasks are files in the folder named by TASKS, which a test changes; so they survive the server. What is
asked is written to the file named by LEDGER, a line each. Without TASKS it offers no tasks.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field

TASKS = "io.modelcontextprotocol/tasks"
WHEN = "2026-11-20T10:00:00Z"
folder = os.environ.get("TASKS", "")


def write(*words: str) -> None:
    with Path(os.environ["LEDGER"]).open("a") as file:
        file.write(f"{' '.join(words)} {os.getpid()}\n")


class TaskParams(RequestParams):
    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses")


def read_task(task_id: str) -> dict[str, Any]:
    file = Path(folder, task_id)
    if not file.exists():
        raise MCPError(INVALID_PARAMS, "Task not found")
    task: dict[str, Any] = json.loads(file.read_text())
    return task


def write_task(task_id: str, task: dict[str, Any]) -> None:
    Path(folder, task_id).write_text(json.dumps(task))


class Tasks(Extension):
    identifier = TASKS

    def methods(self) -> list[MethodBinding]:
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding("tasks/get", TaskParams, self.get, versions),
            MethodBinding("tasks/update", UpdateParams, self.update, versions),
            MethodBinding("tasks/cancel", TaskParams, self.cancel, versions),
        ]

    async def get(self, context: Any, params: TaskParams) -> dict[str, Any]:
        write("get", params.task_id)
        return {"resultType": "complete", **read_task(params.task_id)}

    async def update(self, context: Any, params: UpdateParams) -> dict[str, Any]:
        write("update", params.task_id, json.dumps(params.responses, separators=(",", ":")))
        read_task(params.task_id)
        return {"resultType": "complete"}

    async def cancel(self, context: Any, params: TaskParams) -> dict[str, Any]:
        write("cancel", params.task_id)
        read_task(params.task_id)
        return {"resultType": "complete"}

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        given = params.arguments or {}
        if params.name != "work" or not takes_tasks(context):
            return await call_next(context)
        task_id = f"task-{given['text']}"
        task: dict[str, Any] = {"taskId": task_id, "status": "working", "pollIntervalMs": 10}
        task |= {"createdAt": WHEN, "lastUpdatedAt": WHEN, "ttlMs": 3_600_000}
        write_task(task_id, {**task, **json.loads(given.get("state") or "{}")})
        write("work", given["text"])
        return {"resultType": "task", **task}


class Watch(Extension):
    """Writes down what clients declare to a server without tasks."""

    identifier = "example.test/watch"

    async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
        takes_tasks(context)
        return await call_next(context)


def takes_tasks(context: Any) -> bool:
    """Whether the client declared that it takes tasks; what it declared is written down."""
    declared = context.session.client_capabilities
    extensions = (declared.extensions or {}) if declared else {}
    write("client", str(TASKS in extensions), str(declared is not None and declared.elicitation is not None))
    return TASKS in extensions


server = MCPServer("tasks", extensions=[Tasks() if folder else Watch()])


@server.tool()
def work(text: str, state: str = "") -> str:
    """Works on a text. `state`: what the task is like, as JSON."""
    write("inline", text)
    return f"inline {text}"


if __name__ == "__main__":
    write("start")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
