"""The library: a session in ten lines, and sessions as they are made, listed and named."""

import asyncio
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from asyncagents.errors import Closed, InvalidInput, NotFound
from asyncagents.llm.scripted import ScriptedModel, call
from tests.support.runtime import open_runtime, open_stage
from tests.support.tool import ECHO, Gate
from tests.support.wait import PATIENCE

TEN_LINES = """
import asyncio
import sys
from asyncagents import ScriptedModel, open_runtime, say

async def main() -> None:
    model = ScriptedModel({"Hello?": [[say("Hello, world.")]]})
    async with open_runtime(sys.argv[1], model=model) as runtime:
        session = await runtime.create_session()
        answer = await runtime.prompt(session.id, "Hello?")
        sys.stdout.write(answer.text)
asyncio.run(main())
"""


@pytest.mark.spec("X-07")
def test_a_program_of_ten_lines_runs_a_session(tmp_path: Path) -> None:
    assert len([line for line in TEN_LINES.splitlines() if line]) == 10
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", TEN_LINES, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "Hello, world."
    assert done.stderr == ""


@pytest.mark.spec("X-07")
async def test_runtimes_in_one_process_share_nothing(tmp_path: Path) -> None:
    async with (
        open_stage(tmp_path / "one", {}) as one,
        open_stage(tmp_path / "two", {}) as two,
    ):
        await asyncio.gather(one.prompt("hello"), two.prompt("hello"))
        with pytest.raises(NotFound):
            await one.runtime.session(two.session_id)

    assert len(one.model.requests) == len(two.model.requests) == 1


@pytest.mark.spec("S-01")
async def test_a_session_belongs_to_the_project_of_its_directory(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with open_stage(tmp_path, {}) as at:
        first = await at.runtime.create_session(directory=here)
        second = await at.runtime.create_session(directory=here)
        other = await at.runtime.create_session(directory=there)
        listed = await at.runtime.sessions(here)
        elsewhere = await at.runtime.sessions(there)

    assert first.project_id == second.project_id != other.project_id
    assert first.directory == str(here)
    assert listed == (second, first)
    assert elsewhere == (other,)


@pytest.mark.spec("S-01")
async def test_sessions_sort_by_their_ids_newest_first_and_no_id_comes_twice(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        made = [at.session_id]
        made += [(await at.runtime.create_session(directory=tmp_path)).id for _ in range(20)]
        listed = [session.id for session in await at.runtime.sessions(tmp_path)]

    assert all(newer < older for older, newer in pairwise(made))
    assert listed == made[::-1]


@pytest.mark.spec("S-01")
async def test_a_child_names_its_parent(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        child = await at.runtime.create_session(directory=tmp_path, parent_id=at.session_id)
        children = await at.runtime.children(at.session_id)
        with pytest.raises(NotFound):
            await at.runtime.create_session(parent_id=type(at.session_id)("ses_nobody"))

    assert child.parent_id == at.session_id
    assert children == (child,)
    assert child.title.startswith("Child session - ")


@pytest.mark.spec("S-01")
async def test_a_session_has_times_and_a_default_title_with_its_time(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        created = await at.runtime.session(at.session_id)
        named = await at.runtime.create_session(directory=tmp_path, title="Repairs")
        answer = await at.prompt("hello")
        used = await at.runtime.session(at.session_id)

    assert re.fullmatch(r"New session - \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created.title)
    assert named.title == "Repairs"
    assert created.time.created == created.time.updated == used.time.created
    assert created.time.updated <= used.time.updated <= answer.info.time.created
    assert used.agent == "build"
    assert (used.model is not None) is True


async def test_a_prompt_or_title_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {}) as at:
        with pytest.raises(InvalidInput, match="a prompt must be a text, not int"):
            await at.runtime.send(at.session_id, 7)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="a title must be a text"):
            await at.runtime.create_session(title=5)  # type: ignore[arg-type]


async def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="same name"):
        async with open_runtime(tmp_path, model=ScriptedModel({}), tools=[ECHO, ECHO]):
            pass


async def test_a_wait_raises_closed_when_the_runtime_closes(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_runtime(
        tmp_path, model=ScriptedModel({"go": [[call("gate")]]}), tools=[gate.tool]
    ) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.send(session.id, "go")
        waiting = asyncio.ensure_future(runtime.wait(session.id))
        await gate.until_started()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Closed):
            await waiting


async def test_the_data_files_are_accessible_to_their_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with open_runtime(data, model=ScriptedModel({})) as runtime:
        await runtime.create_session(directory=tmp_path)
        modes = {path.name: path.stat().st_mode & 0o777 for path in [data, *data.iterdir()]}
    assert {name: mode & 0o077 for name, mode in modes.items()} == dict.fromkeys(modes, 0)


async def test_a_function_without_the_tool_decorator_is_refused_with_a_hint(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        return city

    plain: Any = weather
    with pytest.raises(InvalidInput, match=r"weather.* is not a tool: put @tool above the function"):
        async with open_runtime(tmp_path, model=ScriptedModel({}), tools=[plain]):
            pass
