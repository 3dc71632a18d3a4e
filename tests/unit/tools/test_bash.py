"""The tool bash: what it asks for, what it tells, and that no arguments break it."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.bash import BashArgs, bash
from asyncagents.tools.process.processes import Processes

pytestmark = pytest.mark.slow

PATH = os.environ.get("PATH", os.defpath)


def context(directory: Path) -> ToolContext:
    return ToolContext(
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        call_id=CallId("tool_1"),
        agent="build",
        directory=str(directory),
    )


def tool(folder: Path) -> Tool[BashArgs]:
    processes = Processes({"PATH": PATH}, folder=folder.parent / "output", namespace=False)
    return bash(processes, home=Path("/home/someone"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    return tmp_path / "project"


async def run(project: Path, **arguments: Any) -> Completed:
    outcome = await tool(project).run(msgspec.convert(arguments, BashArgs), context(project))
    assert isinstance(outcome, Completed)
    return outcome


async def plan(project: Path, **arguments: Any) -> dict[str, tuple[str, ...]]:
    planned = tool(project).plan
    assert planned is not None
    asks = await planned(msgspec.convert(arguments, BashArgs), context(project))
    return {ask.permission: ask.patterns for ask in asks}


@pytest.mark.spec("A-05")
async def test_a_command_runs_in_the_project_and_its_output_is_the_result(project: Path) -> None:
    done = await run(project, command="pwd; echo oops >&2", description="Where am I")
    assert done.output == f"{project}\noops"
    assert done.title == "Where am I"
    assert done.metadata == {
        "output": f"{project}\noops\n",
        "exit": 0,
        "truncated": False,
        "timedOut": False,
    }


async def test_an_exit_code_is_part_of_the_output_and_no_failure(project: Path) -> None:
    done = await run(project, command="echo no; exit 3")
    assert done.output == "no\n\n<exit code 3>"
    assert done.metadata["exit"] == 3
    assert done.title == "echo no; exit 3"


async def test_the_result_of_a_silent_command_reads_no_output(project: Path) -> None:
    assert (await run(project, command="true")).output == "(no output)"


async def test_a_command_that_takes_too_long_is_ended_and_its_output_is_kept(project: Path) -> None:
    done = await run(project, command="echo begun; sleep 600", timeout=4000)
    assert done.output.startswith("begun\n\n<timed out after 4000 ms")
    assert done.metadata["timedOut"] is True


@pytest.mark.spec("A-07")
async def test_long_output_is_cut_and_the_place_of_the_whole_is_named(project: Path) -> None:
    done = await run(project, command="seq 100000")
    saved = done.metadata["outputPath"]
    assert done.metadata["truncated"] is True
    assert saved in done.output
    assert len(done.output) < 31_000
    assert _lines(saved) == 100_000


def _lines(path: str) -> int:
    return len(Path(path).read_text().splitlines())


async def test_a_command_starts_in_its_workdir(project: Path) -> None:
    assert (await run(project, command="pwd", workdir="src")).output == f"{project}/src"
    assert (await run(project, command="pwd", workdir="/")).output == "/"


@pytest.mark.parametrize("workdir", ["nowhere", "/no/such", "a\0b", "\ud800", "x" * 5000])
async def test_a_missing_workdir_is_a_tool_error(project: Path, workdir: str) -> None:
    with pytest.raises(ToolError, match="There is no directory"):
        await plan(project, command="ls", workdir=workdir)
    with pytest.raises(ToolError, match="There is no directory"):
        await run(project, command="ls", workdir=workdir)


async def test_output_is_reported_while_the_call_runs(project: Path) -> None:
    heard: list[dict[str, Any]] = []
    processes = Processes({"PATH": PATH}, folder=project.parent / "output", namespace=False)
    tool = bash(processes, home=project)
    await tool.run(BashArgs(command="echo hello"), replace(context(project), report=heard.append))
    assert heard == [{"output": "hello\n"}]


@pytest.mark.spec("A-03")
async def test_the_plan_asks_for_each_command_and_for_places_outside(project: Path) -> None:
    assert await plan(project, command="git add . && git commit -m x") == {
        "bash": ("git add .", "git commit -m x")
    }
    assert await plan(project, command="ls", workdir="/") == {"external_directory": ("/*",), "bash": ("ls",)}
    assert await plan(project, command="cat ../x", workdir="src") == {"bash": ("cat ../x",)}
    assert await plan(project, command="cat ../x") == {
        "external_directory": (f"{project.parent}/*",),
        "bash": ("cat ../x",),
    }


async def test_a_plan_runs_nothing(project: Path) -> None:
    await plan(project, command="touch made $(touch made)")
    assert os.listdir(project) == ["src"]


def test_the_arguments_of_bash_are_described_and_validated(project: Path) -> None:
    spec = tool(project).spec()
    assert spec.name == "bash"
    assert "milliseconds" in spec.description
    assert tool(project).effect == "once"
    assert tool(project).timeout > 600
    for wrong in ({}, {"command": ""}, {"command": "x", "timeout": 600_001}, {"command": "x", "timeout": 0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, BashArgs)


ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arguments=st.fixed_dictionaries(
        {"command": st.text(max_size=60) | ANY}, optional={"description": ANY, "timeout": ANY, "workdir": ANY}
    )
)
async def test_any_arguments_give_a_plan_or_an_error_for_the_model(
    project: Path, arguments: dict[str, Any]
) -> None:
    try:
        asked = await plan(project, **arguments)
    except (msgspec.ValidationError, ToolError):
        return
    assert asked["bash"]
    assert all(asked["bash"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60), description=st.text(max_size=300))
async def test_the_result_of_a_command_with_any_text_can_be_stored(
    project: Path, text: str, description: str
) -> None:
    """The text is printed, not run: what a random command does is nobody's guess."""
    quoted = "'" + text.replace("'", "'\\''") + "'"
    command = f"printf %s {quoted}"
    if "\0" in text:
        with pytest.raises(ToolError, match="NUL"):
            await run(project, command=command)
        return
    done = await run(project, command=command, description=description)
    assert msgspec.json.decode(msgspec.json.encode(done), type=Completed) == done
    assert done.metadata["output"] == text
