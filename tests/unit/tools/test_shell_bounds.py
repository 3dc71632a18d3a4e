"""The work to judge a shell line is bounded, whatever the line and the disk are like."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from asyncagents.domain.agent.permission import UNCLEAR
from asyncagents.tools.shell.rules import MOST_CHARACTERS, command_asks

pytestmark = pytest.mark.slow

HOME = Path("/home/someone")
MOST_CALLS = 4_000_000
"""Calls of functions, Python's own among them: the longest lines here take about 2,800,000."""


class Count:
    def __init__(self) -> None:
        self.calls = 0

    def hear(self, frame: FrameType, event: str, argument: Any) -> None:
        self.calls += event in {"call", "c_call"}
        assert self.calls < MOST_CALLS


@contextmanager
def counted() -> Iterator[Count]:
    """Count the calls of functions; a line that takes too many fails at once, it does not hang."""
    before, count = sys.getprofile(), Count()
    sys.setprofile(count.hear)
    try:
        yield count
    finally:
        sys.setprofile(before)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bounds")
    (root / ("a" * 250)).write_text("")
    for outer in range(12):
        for inner in range(12):
            (root / f"f{outer}" / f"g{inner}" / "h").mkdir(parents=True)
    return root


LONG = {
    "a shell within a shell": "sh -c " * 3000,
    "a shell within a shell, 83 deep": "sh -c " * 83 + "rm x",
    "open quotes": "bash -c '" * 500,
    "wrappers": "nice " * 4000 + "ls",
    "options of env": "env A=1 -i " * 1500 + "rm",
    "words of bwrap": "bwrap " + "-a / " * 3000,
    "find -exec": "find . " + "-exec ls " * 2000,
    "patterns of three levels": "ls " + "*/*/* " * 3000,
    "patterns of the whole disk": "cat " + "/*/*/*x " * 900,
    "a pattern of many stars": "ls " + "*a" * 5000 + "b",
    "a pattern that would go back often": "ls " + "*a" * 100 + "b",
    "find and a pattern of many stars": "find " + "*a" * 5000,
    "brackets": "ls " + "[" * 15_000,
    "glued options": "grep " + ("-" + "a" * 60 + " ") * 300,
    "folders": "cd a; " * 2500 + "ls",
    "comments": "ls #\n" * 4000,
    "here-documents": "cat <<E\nE\n" * 1800,
    "parentheses": "(" * 9000 + ")" * 9000,
    "substitutions": "$(" * 9000,
    "backquotes": "`" * 19_000,
    "sed": "sed s/" + "/" * 15_000,
    "options of git": "git push " + "-o x " * 4000,
    "links": "ln " + "a/b " * 4000,
    "folders compared": "diff " + "/usr /etc " * 1500,
    "copies of everything": "cp -r / x; " * 1000,
    "variables": "echo " + "$USER " * 3000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_line_is_judged_with_bounded_work(name: str, project: Path) -> None:
    with counted() as count:
        found = command_asks(LONG[name][:MOST_CHARACTERS], directory=project, start=project, home=HOME)
    assert found
    assert count.calls < MOST_CALLS


PIECES = (
    *("sh -c ", "find . ", "-exec ", "rm ", "x ", "* ", "?", "[^a]", "[", "$PWD ", "${USER}", "-", "--", "="),
    *(
        "/",
        "..",
        "~",
        "git push ",
        "cp -r ",
        "cd ",
        "; ",
        "&& ",
        "'",
        '"',
        "\\ ",
        "\n",
        "/*/*",
        "{a,b}",
        "<<E\n",
    ),
    *("E\n", "$(", "`", ")", "sudo ", "xargs ", "ln -s ", "tar x", "env A=1 ", "diff ", "é", "\udcff", "\0"),
)


@pytest.mark.parametrize("seed", range(4))
def test_lines_at_random_raise_nothing_and_are_judged_with_bounded_work(seed: int, project: Path) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        line = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 60)))
        with counted():
            *_, ask = command_asks(line, directory=project, start=project, home=HOME)
        assert ask.permission == "bash"


@pytest.mark.parametrize(
    "command", ["ls /*/*/*", "ls /proc/*/*", "cat /proc/[0-9]*/cwd/x", "ls /proc/self/fd/*"]
)
def test_a_link_that_cannot_be_read_counts_as_outside(command: str, project: Path) -> None:
    """Some of the links of /proc may not be read, and some are gone when they are."""
    outside, ask = command_asks(command, directory=project, start=project, home=HOME)
    assert outside.permission == "external_directory"
    assert ask.permission == "bash"


def test_a_line_that_names_too_many_files_asks(tmp_path: Path) -> None:
    for number in range(25):
        for name in range(25):
            (tmp_path / f"d{number}" / f"e{name}").mkdir(parents=True)
    *_, ask = command_asks("ls" + " */*" * 20, directory=tmp_path, start=tmp_path, home=HOME)
    assert ask.also == (UNCLEAR,)
