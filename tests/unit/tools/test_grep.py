"""`grep`: the lines that fit, in a process that can be ended, and never what lies outside."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.domain.agent.permission import LineageRules
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.errors import ToolError
from asyncagents.tools.search.grep import GrepResult, GrepSearch, search_lines
from tests.support.workspace.file_tool import SECRET, ToolDesk, open_grep_desk

pytestmark = pytest.mark.slow

USUAL = LineageRules.from_rules(default_rules())


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return open_grep_desk(tmp_path)


def _search(desk: ToolDesk, pattern: str, path: str = ".", include: str | None = None) -> GrepResult:
    """The search itself, in this process."""
    place = desk.files.resolve(path)
    return search_lines(
        GrepSearch(rules=USUAL, root=desk.files.root, place=place, pattern=pattern, include=include)
    )


def _found(desk: ToolDesk, pattern: str, **more: Any) -> list[str]:
    result = _search(desk, pattern, **more)
    assert not result.error
    top = f"{desk.root}/"
    return sorted(f"{m.path.removeprefix(top)}:{m.number}:{m.text}" for m in result.matches)


@pytest.mark.spec("A-05")
async def test_lines_come_with_file_and_number_the_last_changed_file_first(desk: ToolDesk) -> None:
    os.utime(desk.put("old.py", "import os\nx = 1\n"), (1, 1))
    os.utime(desk.put("src/new.py", "y\n\nx = 22\r\nx = 3\n"), (2, 2))
    desk.put("src/other.txt", "x = 4\n")
    desk.put("out/d.py", "x = 5\n")
    desk.put(".gitignore", "/out/\n")
    desk.put(".git/x.py", "x = 6\n")
    result = await desk.call("grep", pattern=r"x = \d+$", include="*.py")
    assert result.output.splitlines() == ["src/new.py:", "  3: x = 22", "  4: x = 3", "old.py:", "  2: x = 1"]
    assert result.metadata == {"matches": 3, "truncated": False}
    nothing = await desk.call("grep", pattern="nowhere")
    assert nothing.output == f"No line below {desk.root} fits the pattern."


@pytest.mark.spec("A-05")
async def test_many_files_are_searched_by_several_processes_and_found_in_the_same_order(
    desk: ToolDesk,
) -> None:
    for number in range(1_500):
        path = desk.put(
            f"d{number % 30}/f{number}.txt", f"é\nneedle {number}\n" if number % 40 == 7 else "hay\n"
        )
        os.utime(path, (number * 7 % 1_009, number * 7 % 1_009))
    desk.put("d1/gone.txt", b"needle\0")
    alone = _search(desk, "needle [0-9]+$")
    together = await desk.call("grep", pattern="needle [0-9]+$")
    told = [line for line in together.output.splitlines() if line.startswith("  ")]
    assert len(told) == len(alone.matches) == 38
    assert told == [f"  {match.number}: {match.text}" for match in alone.matches]


@pytest.mark.spec("A-05")
@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed here")
@pytest.mark.parametrize(
    "pattern", ["needle [0-9]+$", "(needle|straw) 4", "(?i)NEEDLE", "n[a-z]+ 1", "eedle .*7"]
)
def test_grep_finds_the_same_with_and_without_ripgrep(
    desk: ToolDesk, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for number in range(400):
        text = f"Needle {number}\nneedle {number}\nstraw {number}\n" if number % 9 == 0 else "hay\n"
        os.utime(desk.put(f"d{number % 30}/f {number}.txt", text), (number, number))
    with_ripgrep = _search(desk, pattern)
    monkeypatch.setenv("PATH", str(desk.home))
    assert shutil.which("rg") is None
    assert with_ripgrep.matches
    assert _search(desk, pattern) == with_ripgrep


@pytest.mark.spec("A-05")
async def test_a_pattern_that_takes_for_ever_is_ended_and_the_loop_goes_on(tmp_path: Path) -> None:
    desk = open_grep_desk(tmp_path, seconds=1)
    desk.put("a", "a" * 200 + "b\n")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        with pytest.raises(ToolError, match="longer than 1 seconds and was ended"):
            await desk.call("grep", pattern="(a+)+$")
        beating.cancel()
    assert beats > 100
    assert _searches(desk) == []


def _searches(desk: ToolDesk) -> list[str]:
    """What it is asked stands in its command line, in hexadecimal digits."""
    root = desk.files.root.encode().hex().encode()
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            command = (each / "cmdline").read_bytes()
        except OSError:
            continue
        if b"search_worker" in command and root in command:
            found.append(each.name)
    return found


def _until_it_searches(desk: ToolDesk) -> None:
    while not _searches(desk):
        os.sched_yield()


async def test_a_search_that_is_given_up_leaves_no_process(desk: ToolDesk) -> None:
    desk.put("a", "a" * 200 + "b\n")
    context = desk.context()
    await desk.plan("grep", context, pattern="(a+)+$")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(desk.run("grep", context, pattern="(a+)+$"))
        await asyncio.to_thread(_until_it_searches, desk)
        running.cancel()
    assert _searches(desk) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pattern": "("}, "not a valid regular expression: .*at character 1"),
        ({"pattern": "*a"}, "nothing to repeat"),
        ({"pattern": "(" * 2000 + ")" * 2000}, "too complex|too much memory"),
        ({"pattern": "a{99999999999999999999}"}, "too complex"),
        ({"pattern": "\ud800"}, "half a character"),
        ({"pattern": "a", "include": "../*"}, "goes up"),
        ({"pattern": "a", "path": "no"}, "does not exist"),
        ({"pattern": "a", "path": "pipe"}, "pipe"),
        ({"pattern": "a", "path": "\0"}, "NUL"),
        ({"pattern": "a", "path": "/proc/self/environ"}, "/proc"),
    ],
)
async def test_an_invalid_pattern_or_path_is_an_error_with_a_reason(
    desk: ToolDesk, given: dict[str, str], told: str
) -> None:
    os.mkfifo(desk.root / "pipe")
    with pytest.raises(ToolError, match=told):
        await desk.call("grep", **given)


@pytest.mark.parametrize("given", [{"pattern": ""}, {"pattern": "a" * 4001}, {"pattern": 1}, {}])
async def test_an_empty_too_long_or_missing_pattern_is_refused(desk: ToolDesk, given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        await desk.call("grep", **given)


async def test_only_the_first_hundred_are_shown_and_long_lines_are_cut(desk: ToolDesk) -> None:
    desk.put("a", "x" * 3_000 + "\n" + "x\n" * 120)
    result = await desk.call("grep", pattern="x")
    lines = result.output.splitlines()
    assert lines[1] == f"  1: {'x' * 2_000}… (line cut)"
    assert len(lines) == 102
    assert "more than 100 matches" in lines[-1]
    assert result.metadata == {"matches": 100, "truncated": True}


def test_binary_files_links_and_pipes_are_skipped_and_huge_files_counted(
    desk: ToolDesk,
) -> None:
    desk.put("bin", b"the secret\0\1\2")
    desk.put("latin", b"the secret caf\xe9\n")
    desk.put("bom", "\ufeffthe secret\n")
    (desk.root / "out").symlink_to(desk.outside)
    (desk.root / "secret.txt").symlink_to(desk.outside / "secret.txt")
    os.mkfifo(desk.root / "pipe")
    with (desk.root / "huge").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    result = _search(desk, "^the secret")
    assert {Path(match.path).name: match.text for match in result.matches} == {
        "latin": "the secret caf\ufffd",
        "bom": "the secret",
    }
    assert result.unread == 1


async def test_a_file_that_is_named_is_searched_even_if_it_is_ignored(desk: ToolDesk) -> None:
    desk.put(".gitignore", "*.log\n")
    desk.put("a.log", "here\n")
    assert _found(desk, "here") == []
    assert _found(desk, "here", path="a.log") == ["a.log:1:here"]
    assert (await desk.call("grep", pattern="here", path="a.log")).output == "a.log:\n  1: here"


async def test_a_file_with_secrets_is_searched_only_by_its_name_and_with_leave_to_read_it(
    desk: ToolDesk,
) -> None:
    for name in (".env", "prod.env", "d/.env.local", ".env.example"):
        desk.put(name, "KEY=1\n")
    result = await desk.call("grep", pattern="KEY")
    assert result.output.splitlines() == [
        ".env.example:",
        "  1: KEY=1",
        "(3 files that may not be read unasked were not searched; name one in path to ask for it.)",
    ]
    asks = await desk.plan("grep", desk.context(), pattern="KEY", path="d/.env.local")
    assert [(ask.permission, ask.patterns) for ask in asks] == [
        ("read", ("d/.env.local",)),
        ("grep", ("KEY",)),
    ]
    assert "KEY=1" in (await desk.call("grep", pattern="KEY", path=".env")).output


async def test_a_grep_outside_asks_for_the_folder_that_holds_the_file(desk: ToolDesk) -> None:
    (desk.root / "link").symlink_to(desk.outside)
    outside, search = ("external_directory", (f"{desk.outside}/*",)), ("grep", ("s.",))
    for path in ("../outside", "link"):
        asks = await desk.plan("grep", desk.context(), pattern="s.", path=path)
        assert [(ask.permission, ask.patterns) for ask in asks] == [outside, search]
    for path in ("../outside/secret.txt", "link/secret.txt"):
        asks = await desk.plan("grep", desk.context(), pattern="s.", path=path)
        reading = ("read", (f"{desk.outside}/secret.txt",))
        assert [(ask.permission, ask.patterns) for ask in asks] == [outside, reading, search]
    result = await desk.call("grep", pattern="secret", path="../outside")
    assert result.output == f"{desk.outside}/secret.txt:\n  1: {SECRET}"


async def test_a_folder_that_becomes_a_link_after_the_plan_is_not_entered(desk: ToolDesk) -> None:
    desk.put("d/mine.txt", "x")
    context = desk.context()
    await desk.plan("grep", context, pattern="secret", path="d")
    (desk.root / "d").rename(desk.root / "was")
    (desk.root / "d").symlink_to(desk.outside)
    with pytest.raises(ToolError):
        await desk.run("grep", context, pattern="secret", path="d")


async def test_nothing_of_the_project_is_imported_by_the_search(tmp_path: Path) -> None:
    desk = open_grep_desk(tmp_path, PYTHONPATH=str(tmp_path / "project"))
    for name in ("msgspec.py", "re.py", "resource.py", "asyncagents/__init__.py", "sitecustomize.py"):
        desk.put(name, "raise SystemExit(7)  # needle\n")
    result = await desk.call("grep", pattern="needle")
    assert result.metadata["matches"] == 5


PATTERNS = [
    "a",
    "^a",
    "b$",
    "a.b",
    "a|b",
    "[ab]{2}",
    "(ab)+",
    r"\.",
    "A",
]  # git sees an empty line at the end of a file, and so "^$"
_LINES = st.lists(st.sampled_from(["a", "b", "ab", "a b", "", "a.b", "\tab", "é", "A"]), max_size=6)
_FILES = st.dictionaries(st.sampled_from(["a", "b.py", "d/a", "d/b.log", "c.log"]), _LINES, max_size=5)


@pytest.mark.spec("A-05")
@settings(max_examples=60, deadline=None)
@given(_FILES, st.sampled_from(PATTERNS), st.sampled_from(["", "*.log", "d/", "*\n!a"]))
def test_grep_finds_the_same_lines_as_git_grep(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, list[str]], pattern: str, ignored: str
) -> None:
    desk = ToolDesk(tmp_path_factory.mktemp("tree"))
    for name, lines in held.items():
        desk.put(name, "".join(f"{line}\n" for line in lines))
    desk.put(".gitignore", f".gitignore\n{ignored}\n")
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(desk.root)]
    subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    told = subprocess.run(
        [*git, "grep", "--no-index", "--exclude-standard", "--no-color", "-nEI", "-e", pattern],
        capture_output=True,
        check=False,
    )
    assert told.returncode in {0, 1}
    assert _found(desk, pattern) == sorted(told.stdout.decode().splitlines())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pattern=st.text(max_size=10) | st.text("a()[]{}*+?|^$\\0-9:<=!P", max_size=10),
    include=st.none() | st.text("*?[]{},!^-\\/ab.", max_size=8),
)
def test_any_pattern_ends_in_an_answer(desk: ToolDesk, pattern: str, include: str | None) -> None:
    desk.put("a/b", "a line\nanother\n")
    result = _search(desk, pattern, include=include)
    assert not result.error or result.error.endswith(".")
    msgspec.json.encode(result)
