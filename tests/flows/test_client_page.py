"""docs/client.md: its program runs against a server, and its tables leave nothing out."""

import asyncio
import inspect
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from asyncagents.client import Client
from asyncagents.client.approvals import ClientApprovals
from asyncagents.client.async_tools import ClientAsyncTools
from asyncagents.client.client import RECONNECT_SECONDS
from asyncagents.client.tasks import ClientTasks
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import Tool
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.sdk import open_attached_client
from tests.support.page import code_blocks
from tests.support.path import DOCS
from tests.support.runtime import open_runtime
from tests.support.tool import TextArguments, plan_ask, run_echo
from tests.support.wait import PATIENCE

PAGE = (DOCS / "client.md").read_text(encoding="utf-8")
PROGRAM, PIECES = code_blocks("client.md")


def methods(kind: type[Any]) -> set[str]:
    return {name for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"}


@pytest.mark.spec("X-07")
async def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    model = ScriptedModel({"Say hello.": [[say("Hel", "lo!")]], "And goodbye.": [[say("Goodbye!")]]})
    async with (
        open_runtime(tmp_path, model=model) as runtime,
        open_server(runtime, tmp_path, ServerOptions(port=0), directory=tmp_path),
        asyncio.timeout(PATIENCE),
    ):
        program = await asyncio.create_subprocess_exec(
            sys.executable, tmp_path / "program.py", tmp_path, stdout=PIPE, stderr=PIPE
        )
        out, err = await program.communicate()

    assert program.returncode == 0
    assert out.decode() == "Hello!\nGoodbye!\n"
    assert err.decode() == ""


async def test_the_answerer_of_the_page_answers(tmp_path: Path) -> None:
    async def plan(args: TextArguments, context: Any) -> Any:
        (ask,) = await plan_ask(args, context)
        return (type(ask)("read", ask.patterns),)

    read: Tool[TextArguments] = Tool("peek", TextArguments, run_echo, plan=plan)
    pieces: dict[str, Any] = {}
    exec(compile(PIECES, "client.md", "exec"), pieces)
    script = {"go": [[call("peek", text="x")], [say("Read.")]]}
    async with open_attached_client(tmp_path, script, read) as (client, at), asyncio.TaskGroup() as group:
        answering = group.create_task(pieces["allow_reading"](client, at.session_id))
        answer = await client.prompt(SessionId(at.session_id), "go")
        answering.cancel()

    assert answer.text == "Read."


def test_the_page_names_every_method() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| (.*) \|$", PAGE.split("## What the client can do")[1], re.MULTILINE)
    named = {
        name
        for _, row in rows
        for name in re.findall(r"`(?:tasks\.|async_tools\.|approvals\.)?(\w+)[^`]*`", row)
    }

    assert methods(Client) <= named
    assert methods(ClientTasks) | methods(ClientAsyncTools) | methods(ClientApprovals) <= named
    assert f"`patience` ({RECONNECT_SECONDS:.0f} s)" in PAGE
