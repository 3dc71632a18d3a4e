"""A task of an MCP server outlives `asyncagents run` that is killed over it, and the server itself."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.mcp.task_session import FORM, TaskDesk
from tests.support.process.command_line import open_desk


def script(text: str, state: str = "") -> Script:
    """The model makes one call, and reads its result."""
    uses = (ToolUse(name="kit_work", args={"text": text, "state": state}),)
    return {"Go": [Reply(tools=uses), Reply(text="It is done.")]}


def server_entry(desk: TaskDesk) -> dict[str, Any]:
    server = desk.server()
    return {"type": "local", "command": server.command, "environment": server.environment}


@pytest.mark.spec("X-04", "P-03", "X-11")
async def test_a_task_outlives_the_run_that_was_killed_over_it(tmp_path: Path) -> None:
    desk_of_server = TaskDesk(tmp_path / "server")
    ledger = desk_of_server.ledger
    async with open_desk(tmp_path, script("a")) as (desk, _):
        desk.configure(mcp={"kit": server_entry(desk_of_server)})
        killed = await desk.start("run", "Go")
        await desk_of_server.until_written("get")
        killed.kill()
        await killed.communicate()
        desk_of_server.complete("a", "All of it.")
        async with desk.look() as runtime:
            (session,) = await runtime.sessions(desk.project)
            (call,) = await runtime.open_calls(session.id)
        after = await desk.run("run", "--session", session.id)
        why = await desk.run("why", session.id)

    assert call.later is not None
    assert call.later.external_ref == "task-a"
    assert after.code == 0, after.err
    assert after.out == "It is done.\n"
    assert "It rests" in why.out
    assert len(ledger.lines("work")) == 1
    assert ledger.lines("cancel") == []


@pytest.mark.spec("X-04", "X-06")
async def test_a_form_of_a_task_is_answered_at_the_command_line(tmp_path: Path) -> None:
    desk_of_server = TaskDesk(tmp_path / "server")
    asks = {"k": {"method": "elicitation/create", "params": FORM}}
    state = json.dumps({"status": "input_required", "inputRequests": asks})
    async with open_desk(tmp_path, script("a", state)) as (desk, _):
        desk.configure(mcp={"kit": server_entry(desk_of_server)})
        waiting = await desk.run("run", "Go")
        (ask,) = (await desk.run("asks", "--json")).json["asks"]
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(desk.run("answer", ask["id"], "blue", "7"))
            await desk_of_server.until_written("update")
            desk_of_server.complete("a", "Painted.")
        answered = answering.result()

    assert waiting.code == 3
    (sent,) = desk_of_server.ledger.lines("update")
    assert sent[2] == '{"k":{"action":"accept","content":{"colour":"blue","count":7}}}'
    assert answered.code == 0, answered.err
    assert answered.out == "It is done.\n"
