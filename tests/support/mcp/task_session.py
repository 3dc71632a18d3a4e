"""An MCP server whose tool answers with tasks: its configuration, its tasks, and what it was asked."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.config.config import McpConfig
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.part import ToolState
from asyncagents.llm.scripted import Script, call, say
from tests.support.mcp.session import COMPILED, START, Ledger, open_http_server
from tests.support.process.fork_server import forked_command
from tests.support.runtime import Stage
from tests.support.wait import wait_until

PROGRAM = str(Path(__file__).with_name("task_server.py"))
FORM = {
    "mode": "form",
    "message": "Which colour?",
    "requestedSchema": {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "count": {"type": "integer"}},
        "required": ["colour"],
    },
}


class TaskDesk:
    """The tasks of a server, as files, and its ledger."""

    def __init__(self, folder: Path) -> None:
        self.tasks = folder / "tasks"
        self.tasks.mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger(folder / "ledger")

    def environment(self, *, tasks: bool = True) -> dict[str, str]:
        folder = {"TASKS": str(self.tasks)} if tasks else {}
        return {"LEDGER": str(self.ledger.file), **COMPILED, **folder}

    def server(self, *, tasks: bool = True) -> McpConfig:
        command = forked_command("mcp", "tests.support.mcp.task_server")
        return McpConfig(type="local", command=command, environment=self.environment(tasks=tasks))

    def given_server(self) -> NewMcpServer:
        """The server for a session, without values that no row holds."""
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        command = ("/usr/bin/env", *variables, *forked_command("mcp", "tests.support.mcp.task_server"))
        return NewMcpServer(name="kit", command=command)

    @asynccontextmanager
    async def open_remote(self, port: int) -> AsyncIterator[None]:
        """Run the server by HTTP, once it listens."""
        async with open_http_server(PROGRAM, port, self.environment()):
            yield

    def set(self, text: str, **state: Any) -> None:
        """Change the task of a call in one moment."""
        file, new = self.tasks / f"task-{text}", self.tasks / f".task-{text}"
        new.write_text(json.dumps({**json.loads(file.read_text()), **state}))
        new.rename(file)

    def complete(self, text: str, result: str) -> None:
        self.set(text, status="completed", result={"content": [{"type": "text", "text": result}]})

    def lose(self, text: str) -> None:
        (self.tasks / f"task-{text}").unlink()

    async def until_asked(self, times: int = 1) -> None:
        """Wait until the server was asked for a task so many times more."""
        await self.until_written("get", len(self.ledger.lines("get")) + times)

    async def until_written(self, word: str, times: int = 1) -> None:
        """Wait until the ledger has so many lines of a word; servers may have to be started for that."""
        await wait_until(lambda: len(self.ledger.lines(word)) >= times, seconds=START)


def work(*texts: str, **states: dict[str, Any]) -> Script:
    """The model makes these calls in one step; their tasks begin in these states."""
    calls = [call("kit_work", text=text, state=json.dumps(states.get(text, {}))) for text in texts]
    return {"go": [calls, [say("Done.")]]}


async def until_settled(at: Stage) -> list[ToolState]:
    """Wait until the model has read all results; return what its tools said."""
    await wait_until(lambda: len(at.model.requests) == 2, seconds=START)
    await at.runtime.wait(at.session_id)
    return await at.states()
