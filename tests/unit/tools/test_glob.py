"""`glob`: what git would list, the last changed first, and never what lies outside."""

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents.errors import ToolError
from asyncagents.tools.search.glob_match import glob_filter
from asyncagents.tools.search.name_search import NameSearch, search_names
from asyncagents.tools.search.walk import walk
from tests.support.workspace.file_tool import ToolDesk

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path)


def _names(desk: ToolDesk, pattern: str, path: str = ".") -> list[str]:
    """The search itself, in this process."""
    search = NameSearch(root=desk.files.root, place=desk.files.resolve(path), pattern=pattern, seconds=60)
    found = search_names(desk.files, search, lambda: False)
    return [each.removeprefix(f"{desk.root}/") for each in found.paths]


async def _found(desk: ToolDesk, pattern: str, path: str | None = None) -> list[str]:
    result = await desk.call("glob", pattern=pattern, path=path)
    return sorted(result.output.splitlines()) if result.metadata["count"] else []


@pytest.mark.spec("A-05")
async def test_the_last_changed_files_come_first_and_ignored_ones_are_left_out(desk: ToolDesk) -> None:
    names = ["a.py", "src/b.py", "src/deep/c.py", "out/d.py", "src/gen/e.py", ".git/f.py", "src/.git/g.py"]
    for age, name in enumerate(names):
        os.utime(desk.put(name, "x"), (1_000 - age, 1_000 - age))
    desk.put(".gitignore", "/out/\n")
    desk.put("src/.gitignore", "gen\n")
    result = await desk.call("glob", pattern="**/*.py")
    assert result.output.splitlines() == ["a.py", "src/b.py", "src/deep/c.py"]
    assert result.metadata == {"count": 3, "truncated": False}


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("*.py", "a.py d/a.py d/e/a.py .a.py", "a.pyc a/py"),
        ("/*.py", "a.py", "d/a.py"),
        ("./*.py", "a.py", "d/a.py"),
        ("**/*.py", "a.py d/a.py d/e/a.py", "a.txt"),
        ("d/**/*.py", "d/a.py d/e/f/a.py", "a.py x/d/a.py"),
        ("d/*.py", "d/a.py", "d/e/a.py"),
        ("d/**", "d/a d/e/a", "d a"),
        ("d/", "d/a d/e/a", "d a"),
        ("**", "a d/a", ""),
        ("*.{ts,tsx}", "a.ts d/a.tsx", "a.t a.{ts,tsx}"),
        ("{src,{lib,x}}/*.c", "src/a.c lib/a.c x/a.c", "a.c y/a.c"),
        ("{a}", "{a}", "a"),
        ("[ab]?", "ax bx", "cx a"),
        ("\\*", "* d/*", "a"),
        ("a b", "a\u00a0b".replace("\u00a0", " "), "ab"),
    ],
)
def test_a_pattern_matches_the_expected_paths(pattern: str, fits: str, not_: str) -> None:
    does = glob_filter(pattern, ("top",))
    separated = [fits] if " " in pattern else fits.split()
    assert all(does(("top", *each.split("/"))) for each in separated)
    assert not any(does(("top", *each.split("/"))) for each in not_.split())
    assert not any(does(("other", *each.split("/"))) for each in separated)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pattern": ""}, "empty"),
        ({"pattern": "/"}, "empty"),
        ({"pattern": "../*"}, "goes up"),
        ({"pattern": "\ud800"}, "half a character"),
        ({"pattern": "a" * 1001}, "shorter"),
        ({"pattern": "{a,b}" * 10}, "choices in braces"),
        ({"pattern": "*", "path": "file"}, "not a folder"),
        ({"pattern": "*", "path": "no"}, "does not exist"),
        ({"pattern": "*", "path": "\0"}, "NUL"),
        ({"pattern": "*", "path": "loop"}, "circle"),
    ],
)
async def test_an_invalid_pattern_or_path_is_an_error_with_a_reason(
    desk: ToolDesk, given: dict[str, str], told: str
) -> None:
    desk.put("file", "x")
    (desk.root / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=told):
        await desk.call("glob", **given)


async def test_only_the_first_hundred_are_shown(desk: ToolDesk) -> None:
    for number in range(130):
        os.utime(desk.put(f"f{number}", "x"), (number, number))
    result = await desk.call("glob", pattern="f*")
    lines = result.output.splitlines()
    assert lines[:100] == [f"f{number}" for number in range(129, 29, -1)]
    assert "100 last changed of 130" in lines[100]
    assert result.metadata == {"count": 100, "truncated": True}


async def test_links_are_neither_followed_nor_shown(desk: ToolDesk) -> None:
    desk.put("real/a.txt", "x")
    (desk.root / "out").symlink_to(desk.outside)
    (desk.root / "self").symlink_to(".")
    (desk.root / "secret.txt").symlink_to(desk.outside / "secret.txt")
    os.mkfifo(desk.root / "pipe.txt")
    assert await _found(desk, "**/*.txt") == ["real/a.txt"]


async def test_a_glob_outside_asks_for_the_folder_and_shows_absolute_paths(desk: ToolDesk) -> None:
    (desk.root / "link").symlink_to(desk.outside)
    for path in ("../outside", "link"):
        asks = await desk.plan("glob", desk.context(), pattern="*.txt", path=path)
        assert [(ask.permission, ask.patterns) for ask in asks] == [
            ("external_directory", (f"{desk.outside}/*",)),
            ("glob", ("*.txt",)),
        ]
    assert await _found(desk, "*.txt", "../outside") == [str(desk.outside / "secret.txt")]


async def test_a_folder_that_becomes_a_link_after_the_plan_is_not_entered(desk: ToolDesk) -> None:
    desk.put("d/mine.txt", "x")
    context = desk.context()
    await desk.plan("glob", context, pattern="*", path="d")
    (desk.root / "d").rename(desk.root / "was")
    (desk.root / "d").symlink_to(desk.outside)
    with pytest.raises(ToolError):
        await desk.run("glob", context, pattern="*", path="d")


async def test_an_ignored_folder_is_searched_when_it_is_named(desk: ToolDesk) -> None:
    desk.put(".gitignore", "node_modules/\n*.log\n")
    desk.put("node_modules/x/a.js", "x")
    desk.put("node_modules/x/a.log", "x")
    assert await _found(desk, "*.js") == []
    assert await _found(desk, "*", "node_modules") == ["node_modules/x/a.js"]


async def test_odd_names_are_found_and_shown_in_whole_characters(desk: ToolDesk) -> None:
    for name in (b"new\xff.py", "ü.py".encode(), b"-rf.py", b"[x].py"):
        (desk.root / os.fsdecode(name)).write_text("x")
    assert await _found(desk, "*.py") == sorted(["new?.py", "ü.py", "-rf.py", "[x].py"])


def test_a_walk_that_is_stopped_ends_and_one_too_large_is_cut(desk: ToolDesk) -> None:
    for number in range(20):
        desk.put(f"d{number}/f", "x")
    stop = Event()
    top = desk.files.resolve(".")
    assert len(walk(desk.files, top, lambda _: True).files) == 20
    cut = walk(desk.files, top, lambda _: True, most=30)
    assert cut.cut
    assert 0 < len(cut.files) < 20
    stop.set()
    assert walk(desk.files, top, lambda _: True, stopped=stop.is_set).files == []


_NAMES = st.sampled_from(["a", "b", "a.log", "b.py", "x y", "#c", "!d", "é"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_RULES = st.sampled_from(
    [*("a", "/a", "a/", "*.log", "!*.log", "**/b", "a/**", "!a/b", "*", "!*/", "#c", "\\#c", "\\!d", "x y ")]
)
_IGNORES = st.dictionaries(
    st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(_RULES, max_size=4), max_size=3
)


@pytest.mark.spec("A-05")
@settings(max_examples=60, deadline=None)
@given(st.sets(_PATHS, max_size=12), _IGNORES)
def test_a_glob_finds_the_same_files_as_git_ls_files(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], ignores: dict[str, list[str]]
) -> None:
    desk = ToolDesk(tmp_path_factory.mktemp("tree"))
    for path in sorted(paths):
        _put(desk, path, "x")
    for folder, lines in ignores.items():
        _put(desk, f"{folder}.gitignore", "\n".join(lines))
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(desk.root)]
    subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True
    )
    expected = sorted(os.fsdecode(each) for each in listed.stdout.split(b"\0") if each)
    assert sorted(_names(desk, "**")) == expected


def _put(desk: ToolDesk, path: str, text: str) -> None:
    with suppress(OSError):  # one path says file, another folder
        desk.put(path, text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=12) | st.text("*?[]{},!^-\\/ab.", max_size=12), st.none() | st.text(max_size=6))
def test_any_arguments_end_in_a_result_or_a_tool_error(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, path: str | None
) -> None:
    desk = ToolDesk(tmp_path_factory.mktemp("any"))
    desk.put("a/b.py", "x")

    async def call() -> None:
        context = desk.context()
        asks = await desk.plan("glob", context, pattern=pattern, path=path)
        if asks[0].permission == "glob":
            _names(desk, pattern, path or ".")

    told = "."
    try:
        asyncio.run(call())
    except ToolError as error:
        told = str(error)
    assert told.endswith((".", "?"))
