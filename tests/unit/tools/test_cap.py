"""The cap on what any tool tells: nothing is lost, and every tool stays what it was."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import Ask, AsyncSpec, Outcome, Pending, Tool, ToolContext, WithFacts
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.bash import bash
from asyncagents.tools.output.limit import MOST_CHARS, MOST_LINES, delete_old_files, limit_output
from asyncagents.tools.process.processes import Processes

DAY_MS = 24 * 3600 * 1000
LONG = "".join(f"line {number}\n" for number in range(20_000))


class Nothing(Struct):
    """No arguments."""


CONTEXT = ToolContext(
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    call_id=CallId("tool_1"),
    agent="build",
    directory="/",
)


async def _told(folder: Path, outcome: Outcome | Exception) -> Outcome:
    async def run(args: Nothing, context: ToolContext) -> Outcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return await limit_output(Tool("t", Nothing, run), folder).run(Nothing(), CONTEXT)


def _read(metadata: dict[str, Any]) -> str:
    return Path(metadata["outputPath"]).read_bytes().decode()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_capped_async_tool_differs_only_in_its_run(tmp_path: Path) -> None:
    async def run(args: Nothing, context: ToolContext) -> Outcome:
        return Completed("")

    tool = Tool("t", Nothing, run, effect="idempotent", timeout=7, spec=AsyncSpec(seconds=9))
    same = limit_output(tool, tmp_path)
    assert {**vars(same), "run": run} == vars(tool)
    assert same.run is not run


@pytest.mark.spec("A-07")
async def test_a_long_output_is_cut_and_the_whole_is_saved_in_a_private_file(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "output"
    done = await _told(folder, Completed(LONG, title="t", metadata={"a": 1}))
    assert isinstance(done, Completed)
    assert done.title == "t"
    assert done.metadata["a"] == 1
    assert done.metadata["truncated"] is True
    assert _read(done.metadata) == LONG
    path = Path(done.metadata["outputPath"])
    assert path.parent == folder
    assert _mode(path) == 0o600
    assert _mode(folder) == 0o700
    lines = done.output.splitlines()
    assert lines[0] == "line 0"
    assert lines[-1] == "line 19999"
    assert any(line.startswith("[") and str(path) in line and "18010 lines" in line for line in lines)


@pytest.mark.spec("A-07")
async def test_a_long_error_is_cut_too_returned_or_raised(tmp_path: Path) -> None:
    failed = await _told(tmp_path, Failed(LONG, blocks=True))
    assert isinstance(failed, Failed)
    assert failed.blocks
    raised = await _told(tmp_path, ToolError(LONG))
    assert isinstance(raised, Failed)
    for each in (failed, raised):
        assert len(each.error) <= MOST_CHARS
        assert _read(each.metadata) == LONG
    with pytest.raises(ToolError, match="short"):
        await _told(tmp_path, ToolError("short"))


@pytest.mark.spec("A-07")
async def test_facts_of_a_capped_result_stay_with_it(tmp_path: Path) -> None:
    done = await _told(tmp_path, WithFacts(Completed(LONG), ()))
    assert isinstance(done, WithFacts)
    assert isinstance(done.result, Completed)
    assert _read(done.result.metadata) == LONG


@pytest.mark.parametrize(
    "outcome",
    [
        Completed("x" * MOST_CHARS),
        Completed("\n".join("x" * MOST_LINES)),
        Completed(""),
        Failed("no"),
        Pending(note=LONG),
        WithFacts(Completed("x"), ()),
    ],
)
async def test_a_short_or_pending_outcome_is_not_changed(tmp_path: Path, outcome: Outcome) -> None:
    assert await _told(tmp_path, outcome) is outcome or await _told(tmp_path, outcome) == outcome
    assert os.listdir(tmp_path) == []


def test_a_capped_tool_keeps_its_plan_and_its_reconcile(tmp_path: Path) -> None:
    async def run(args: Nothing, context: ToolContext) -> Outcome:
        return Completed("")

    async def plan(args: Nothing, context: ToolContext) -> tuple[Ask, ...]:
        return ()

    async def reconcile(args: Nothing, context: ToolContext) -> Result | None:
        return None

    tool = Tool(
        *("t", Nothing, run),
        plan=plan,
        effect="idempotent",
        timeout=7.0,
        reconcile=reconcile,
        description="What it does.",
    )
    other = limit_output(tool, tmp_path)
    for name in vars(tool):
        assert name == "run" or getattr(other, name) == getattr(tool, name)


_TEXTS = st.builds(
    lambda line, count, end: line * count + end,
    st.sampled_from(["\n", "x\n", "x", "é\r\n", "word " * 50 + "\n", "y" * 30_000 + "\n"]),
    st.integers(0, 6_000),
    st.text(max_size=5),
)


@settings(max_examples=60, deadline=None)
@given(_TEXTS.filter(lambda text: len(text) < 3_000_000))
async def test_head_and_tail_are_of_the_text_and_within_the_cap(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("cap")
    done = await _told(folder, Completed(text))
    assert isinstance(done, Completed)
    assert len(done.output) <= MOST_CHARS
    assert done.output.count("\n") < MOST_LINES
    if done.output != text:
        head, tail = done.output.split("\n\n[")[0], done.output.rpartition("]\n\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert _read(done.metadata) == text
    again = await _told(folder, done)
    assert again == done


@pytest.mark.spec("A-07")
async def test_output_of_bash_is_cut_and_saved_only_once(tmp_path: Path) -> None:
    processes = Processes({"PATH": os.environ.get("PATH", os.defpath)}, folder=tmp_path, namespace=False)
    tool = limit_output(bash(processes, home=tmp_path), tmp_path)
    done = await tool.run(tool.args(command="seq 100000"), CONTEXT)
    assert isinstance(done, Completed)
    assert len(os.listdir(tmp_path)) == 1
    assert done.output.count("left out") == 1
    assert _read(done.metadata).splitlines()[-1] == "100000"


async def test_a_text_that_cannot_be_saved_is_cut_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = await _told(tmp_path / "file" / "folder", Completed(LONG))
    assert isinstance(done, Completed)
    assert "the whole could not be saved" in done.output
    assert "outputPath" not in done.metadata
    assert done.metadata["truncated"]


def test_old_output_files_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    now = 100 * DAY_MS
    ages = {"output-a.txt": 8, "output-b.txt": 6, "notes.txt": 50, "output-c.log": 50, "output-d.txt": 7}
    for name, days in ages.items():
        (tmp_path / name).touch()
        at = (now - days * DAY_MS) / 1000
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "output-folder.txt").mkdir()
    (tmp_path / "output-link.txt").symlink_to(tmp_path / "notes.txt")
    assert delete_old_files(tmp_path, now) == 1
    assert "output-a.txt" not in os.listdir(tmp_path)
    assert len(os.listdir(tmp_path)) == 6
    assert delete_old_files(tmp_path / "no such folder", now) == 0
