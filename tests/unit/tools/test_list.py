"""`list`: a tree, without what `.gitignore` names."""

import os
import subprocess
from pathlib import Path

import pytest

from asyncagents.errors import ToolError
from asyncagents.tools.search.gitignore import IgnoreRule, is_ignored, parse_rules
from tests.support.workspace.file_tool import ToolDesk

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path)


async def test_a_tree_is_drawn_without_ignored_and_usual_folders(desk: ToolDesk) -> None:
    for name in (
        "src/a.py",
        "src/deep/b.py",
        "README.md",
        "node_modules/x/y",
        ".git/config",
        "out/x",
        "a.log",
    ):
        desk.put(name, "x")
    desk.put(".gitignore", "/out/\n*.log\n!keep.log\n")
    desk.put("src/keep.log", "x")
    desk.put("src/.gitignore", "deep/\n")
    result = await desk.call("list")
    assert result.output.splitlines() == [
        f"{desk.root}/",
        "  .gitignore",
        "  README.md",
        "  src/",
        "    .gitignore",
        "    a.py",
        "    keep.log",
    ]
    assert result.metadata == {"count": 6, "truncated": False}


async def test_a_folder_below_follows_the_rules_above_it(desk: ToolDesk) -> None:
    desk.put(".gitignore", "*.log\n/src/gen\n")
    for name in ("src/a.py", "src/a.log", "src/gen/x", "src/own/y"):
        desk.put(name, "x")
    result = await desk.call("list", path="src", ignore=["own"])
    assert result.output.splitlines() == [f"{desk.root}/src/", "  a.py"]


async def test_links_are_shown_and_not_entered(desk: ToolDesk) -> None:
    (desk.root / "out").symlink_to(desk.outside)
    (desk.root / "self").symlink_to(".")
    assert (await desk.call("list")).output.splitlines()[1:] == ["  out@", "  self@"]


async def test_a_large_tree_is_cut_at_its_deepest_entries(desk: ToolDesk) -> None:
    for folder in range(10):
        for file in range(60):
            desk.put(f"d{folder}/f{file}", "x")
    result = await desk.call("list")
    assert result.metadata == {"count": 300, "truncated": True}
    assert "  d9/" in result.output.splitlines()
    assert result.output.endswith("list a deeper folder to see more of it.)")


async def test_list_asks_by_the_real_name_and_outside_for_the_folder_itself(desk: ToolDesk) -> None:
    desk.put("src/a", "x")
    (ask,) = await desk.plan("list", desk.context(), path="src/../src/")
    assert ask.permission == "list"
    assert ask.patterns == ("src",)
    asks = await desk.plan("list", desk.context(), path="../outside")
    assert asks[0].patterns == (f"{desk.outside}/*",)
    assert "secret.txt" in (await desk.call("list", path="../outside")).output


@pytest.mark.parametrize("path", ["missing", "file", "a\0", "/proc/self/fd"])
async def test_a_path_that_is_no_folder_is_a_tool_error(desk: ToolDesk, path: str) -> None:
    desk.put("file", "x")
    with pytest.raises(ToolError):
        await desk.call("list", path=path)


async def test_a_gitignore_that_is_a_pipe_or_a_link_out_is_passed_over(desk: ToolDesk) -> None:
    os.mkfifo(desk.root / ".gitignore")
    desk.put("sub/a", "x")
    (desk.root / "sub/.gitignore").symlink_to(desk.outside / "secret.txt")
    assert "    a" in (await desk.call("list")).output.splitlines()


PATHS = ["a", "a.log", "d/a", "d/a.log", "d/e/a", "d/e/b c", "#x", "!x", "d/*", "[x]", "sp ", "x/y/z/a", "A"]
IGNORES = [
    *("a", "/a", "a/", "d", "d/", "d/a", "/d/a", "*.log", "*", "d/*", "**/a", "d/**", "d/**/a", "x/**/a"),
    *("?", "[ab]", "[!ab]", "[^ab]", "[a-c]*", "\\#x", "\\!x", "#x", "d/\\*", "\\[x\\]", "[", "[]", "sp\\ "),
    *(
        "*\n!a",
        "d/*\n!d/e",
        "d/\n!d/a",
        "**",
        "/",
        "",
        "//",
        "d//a",
        "a*a*a*a*b",
        "**/e/",
        "***",
        "x/*/z",
        "x/**/",
    ),
]


@pytest.mark.parametrize("text", IGNORES)
def test_gitignore_is_read_as_git_reads_it(tmp_path: Path, text: str) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".gitignore").write_text(text + "\n")
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    known = parse_rules(text.split("\n"))
    kept = {path for path in PATHS if not _ignored(path, known)}
    assert kept == set(listed.stdout.split("\0")) & set(PATHS)


def _ignored(path: str, known: tuple[IgnoreRule, ...]) -> bool:
    parts = tuple(path.split("/"))
    whole = len(parts)
    return any(is_ignored(parts[:depth], known, folder=depth < whole) for depth in range(1, whole + 1))


def test_a_hostile_pattern_takes_no_time() -> None:
    known = parse_rules(["*a" * 400 + "b", "**/" * 300 + "b"])
    assert not is_ignored(("a" * 255,) * 30, known, folder=False)
