"""Files that git tracks are found, though a rule ignores them."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents.tools.file.path import InsidePath, OutsidePath
from asyncagents.tools.git.index import TrackedFiles, index_names
from tests.support.workspace.file_tool import ToolDesk, open_grep_desk

pytestmark = pytest.mark.slow

IGNORED = {
    "vendor/lib/a.py": "needle",
    "vendor/lib/b.py": "needle",
    "vendor/c.py": "needle",
    "x.log": "needle",
}


def git(root: Path, *words: str) -> str:
    quiet = ("-c", "core.excludesFile=/dev/null", "-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ("git", *quiet, "-C", str(root), *words), check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    desk = open_grep_desk(tmp_path)
    for name, text in IGNORED.items():
        desk.put(name, text)
    desk.put("plain.py", "needle")
    desk.put(".gitignore", "vendor/\n*.log\n")
    git(desk.root, "init", "-q")
    return desk


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("version", ["2", "3", "4"])
async def test_a_file_that_git_tracks_is_found_though_a_rule_ignores_it(desk: ToolDesk, version: str) -> None:
    git(desk.root, "add", ".gitignore", "plain.py")
    git(desk.root, "add", "--force", "vendor/lib/a.py", "x.log")
    git(desk.root, "update-index", "--index-version", version)
    if version == "3":  # it is written only where an entry has flags that the second cannot have
        git(desk.root, "update-index", "--skip-worktree", "plain.py")

    found = (await desk.call("glob", pattern="**/*.{py,log}")).output.split("\n")
    lines = (await desk.call("grep", pattern="needle")).output.split("\n")
    drawn = (await desk.call("list")).output.split("\n")

    assert sorted(found) == ["plain.py", "vendor/lib/a.py", "x.log"]
    assert sorted(line for line in lines if line.endswith(":")) == ["plain.py:", "vendor/lib/a.py:", "x.log:"]
    assert [line.strip() for line in drawn[1:]] == [
        *(".gitignore", "plain.py", "vendor/", "lib/", "a.py", "x.log"),
    ]


@pytest.mark.spec("A-05")
async def test_a_file_that_git_no_longer_tracks_is_ignored_again(desk: ToolDesk) -> None:
    git(desk.root, "add", "--force", "vendor", "x.log")
    assert "vendor/c.py" in (await desk.call("glob", pattern="*.py")).output
    git(desk.root, "rm", "-q", "--cached", "-r", "vendor")
    assert (await desk.call("glob", pattern="*.py")).output == "plain.py"


async def test_the_argument_ignore_of_list_hides_tracked_files(desk: ToolDesk) -> None:
    git(desk.root, "add", "--force", "vendor")
    drawn = (await desk.call("list", ignore=["lib/"])).output
    assert "c.py" in drawn
    assert "a.py" not in drawn


@pytest.mark.parametrize(
    "made",
    [
        b"",
        b"DIRC",
        b"DIRC\0\0\0\x09\0\0\0\x01" + b"\0" * 100,
        b"DIRC\0\0\0\x02\xff\xff\xff\xff" + b"\xff" * 200,
        b"DIRC\0\0\0\x04\0\0\0\x02" + b"\xff" * 200,
    ],
)
def test_an_index_that_git_did_not_write_names_nothing(made: bytes) -> None:
    assert index_names(made) == []


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([2, 3, 4]))
def test_any_bytes_as_a_git_index_raise_nothing(rest: bytes, version: int) -> None:
    head = b"DIRC" + version.to_bytes(4, "big") + (3).to_bytes(4, "big")
    assert len(index_names(head + rest)) <= 3


def test_an_index_with_longer_hashes_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.log").write_text("y")
    git(tmp_path, "add", "--all")
    assert index_names((tmp_path / ".git" / "index").read_bytes()) == [b"a.log", b"folder/b.log"]


def test_an_index_names_nothing_outside_of_the_project(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    git(tmp_path, "init", "-q")
    (tmp_path / "a.log").write_text("x")
    git(tmp_path, "add", "--all")
    tracked = TrackedFiles(InsidePath(root, ()))
    assert tracked.holds(("a.log",), folder=False)
    assert not tracked.holds(("a.lo",), folder=False)
    assert not tracked.holds(("a.log",), folder=True)
    assert not TrackedFiles(OutsidePath(())).holds(("a.log",), folder=False)
