"""An undo in a process that is killed: whoever comes next ends it, or undoes and redoes it again."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from asyncagents.domain.conversation.session import Session
from tests.support.process.undo_worker import MANY, open_undo_runtime
from tests.support.wait import wait_until

PATIENCE = 60
ROOT = Path(__file__).parents[2]


def project(root: Path) -> None:
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for number in range(MANY):
        (root / f"{number}.txt").write_text(f"first {number}\n")


def state(root: Path) -> tuple[int, int, int]:
    """Files that are as they were at first, that are changed, and that are new."""
    texts = [(root / f"{number}.txt").read_text().split()[0] for number in range(MANY)]
    new = len(list((root / "new").iterdir())) if (root / "new").exists() else 0
    return texts.count("first"), texts.count("changed"), new


def count_undone(root: Path) -> int:
    """A file is written anew, and not there or empty for a moment."""
    found = 0
    for number in range(MANY):
        with suppress(OSError):
            found += (root / f"{number}.txt").read_text().startswith("first")
    return found


async def kill_at(undone: int, data: Path, root: Path) -> None:
    """A process that undoes, once so many files are as they were at first."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.process.undo_worker", str(data), str(root),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert worker.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await worker.stdout.readline() == b"marked\n"
        await wait_until(lambda: count_undone(root) >= undone, pause=0.001)
        worker.kill()
        await worker.wait()


@pytest.mark.spec("X-01")
@pytest.mark.parametrize(("undone", "next_step"), [(1, "undo"), (MANY // 2, "redo"), (0, "speak")])
async def test_an_undo_in_a_killed_process_is_completed_by_the_next_process(
    tmp_path: Path, undone: int, next_step: str
) -> None:
    data, root = tmp_path / "data", tmp_path / "project"
    project(root)
    await kill_at(undone, data, root)
    async with asyncio.timeout(PATIENCE), open_undo_runtime(data) as here:
        session: Session = await here.create_session(directory=root, key="one")
        assert session.revert is not None
        if next_step == "undo":
            await here.reverts.revert(session.id, session.revert.message_id)
        elif next_step == "redo":
            await here.reverts.unrevert(session.id)
        else:
            await here.prompt(session.id, "hello")
        now = await here.session(session.id)
    assert state(root) == ((0, MANY, MANY) if next_step == "redo" else (MANY, 0, 0))
    assert (now.revert is not None) == (next_step == "undo")
