"""A project that makes its tools slow, or hang, holds up no other project and no stop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.testing.provider import Reply, ToolUse
from tests.support.kills.serve_client import build_client, create_prompted_session
from tests.support.kills.serve_kills import descendants, until_dead
from tests.support.load.hostile_project import Person, make_hostile, open_stage, run
from tests.support.process.command_line import PROCESS_PATIENCE, open_desk
from tests.support.process.server import DeskServer, open_desk_server
from tests.support.wait import wait_until

HANGS = """
import asyncio, time
from pathlib import Path
from asyncagents import tool

@tool
async def hang() -> str:
    \"\"\"Hang in a thread of the loop, whatever is asked.\"\"\"
    Path("begun").touch()
    await asyncio.to_thread(time.sleep, 600)
    return "never"
"""


def _lists(count: int) -> list[dict[str, Any]]:
    tools = [{"name": "list", "args": {"path": ".", "ignore": [f"x{at}"]}} for at in range(count)]
    return [{"text": "", "tools": tools}, {"text": "done"}]


async def _until_it_searches(server: DeskServer) -> None:
    """Processes tell nobody that they begin."""
    await wait_until(lambda: _searching(server), seconds=PROCESS_PATIENCE)


def _searching(server: DeskServer) -> list[int]:
    return [pid for pid in descendants(server.process.pid) if b"search_worker" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def _read_there(person: Person, quiet: Path) -> str:
    """A session, a prompt and a tool in the other project."""
    read = {"name": "read", "args": {"filePath": "a.txt"}}
    steps: list[dict[str, Any]] = [{"text": "", "tools": [read]}, {"text": "It was read."}]
    async with asyncio.timeout(PROCESS_PATIENCE):
        answer = await person.prompt(await person.session(quiet), "go", steps)
    return str(answer["parts"])


async def test_lists_of_a_hostile_project_hold_up_no_other_and_end_with_their_session(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as (desk, server, person, quiet):
        make_hostile(desk.project)
        session = await person.session(desk.project)
        await person.send(session, "go", _lists(40))
        await _until_it_searches(server)
        during = await _read_there(person, quiet)
        busy = dict.fromkeys(_searching(server))
        async with asyncio.timeout(PROCESS_PATIENCE):
            await person.ask("POST", f"/session/{session}/abort")
        after = await _read_there(person, quiet)
        left = [pid for pid in _searching(server) if pid in busy]
        await person.ask("GET", "/v1/health")
        await server.end()
    assert "It was read." in during
    assert "It was read." in after
    assert busy
    assert not left


@pytest.mark.parametrize("tool", ["list", "glob"])
async def test_a_stop_is_quick_while_a_hostile_project_is_searched(tmp_path: Path, tool: str) -> None:
    async with open_stage(tmp_path) as (desk, server, person, _):
        make_hostile(desk.project, names=12_000)
        given = {"path": "."} if tool == "list" else {"pattern": "**/*.txt"}
        session = await person.session(desk.project)
        await person.send(session, "go", [{"text": "", "tools": [{"name": tool, "args": given}]}])
        await _until_it_searches(server)
        children = descendants(server.process.pid)
        await server.end()
    await until_dead(children)
    assert server.process.returncode == 0, "it would be 143 if the stop had taken more than 5 s"


async def test_a_stop_is_quick_though_a_tool_hangs_in_a_thread(tmp_path: Path) -> None:
    script = {"Hang": [Reply(text="", tools=(ToolUse("hang", {}),))]}
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission={"*": "allow"})
        file = desk.project / ".asyncagents/tools/hang.py"
        file.parent.mkdir(parents=True)
        file.write_text(HANGS)
        assert (await desk.run("trust")).code == 0
        async with open_desk_server(desk) as server:
            await create_prompted_session(build_client(desk.data), "Hang")
            await wait_until((desk.project / "begun").exists, seconds=PROCESS_PATIENCE)
            said = await server.end()
    assert server.process.returncode == 143
    assert said == "stopping\nnot stopped within 5 s: exiting as on a second signal\n"


async def test_all_prompts_are_answered_beside_hostile_tool_calls(tmp_path: Path) -> None:
    """In the long run of `make soak` it is measured how fast."""
    result = await run(tmp_path, calls=14, prompts=6, names=300)
    assert len(result.attacked.prompts) == len(result.quiet.prompts) == 6
    assert result.attacked.health
    assert result.calls >= 14
