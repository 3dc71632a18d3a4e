"""Rules of `.gitignore` against pathspec, and against git where the two differ.

Left out is what we read unlike git: a class with an escape or a name (`[\\]]`, `[[:alpha:]]`), a bracket that
is not closed, three stars.
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from asyncagents.tools.search.gitignore import IgnoreRules, parse_rules

pytestmark = pytest.mark.slow

GLOBS = [
    *("a", "b", "ab", "-", "a b", "x.py", "*", "**", "?", "a*", "*b", "*.py", "a?b", "a**b", "**a"),
    *("[ab]", "[!a]", "[^b]", "[a-b]x", "[]a]", "\\*", "\\#", "\\!a", "a\\b", "\\ab"),
]
LINES = st.builds(
    lambda mark, top, globs, end, blank: f"{mark}{top}{'/'.join(globs)}{end}{blank}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3),
    st.sampled_from(["", "/", "/**"]),
    st.sampled_from(["", "", " ", "\\ "]),
)
NAMES = st.sampled_from(["a", "b", "ab", "aab", "axb", "acb", "x.py", "ax", "*", "#", "!a", "a b", "-", "a]"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return folder


def ignores(lines: list[str], path: tuple[str, ...]) -> bool:
    """As a walk does: what is in an ignored folder is not looked at."""
    rules = IgnoreRules(parse_rules(lines))
    return any(rules.ignores(path[:depth], folder=depth < len(path)) for depth in range(1, len(path) + 1))


def git_ignores(repository: Path, lines: list[str], path: tuple[str, ...]) -> bool:
    (repository / ".gitignore").write_text("".join(f"{line}\n" for line in lines))
    command = [
        "git",
        "-c",
        "core.excludesFile=",
        "check-ignore",
        "--quiet",
        "--no-index",
        "--",
        "/".join(path),
    ]
    code = subprocess.run(command, cwd=repository, check=False).returncode
    assert code in (0, 1)
    return code == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4), PATHS)
@example(["/a*/**/"], ("a", "b"))
@example(["/ab", "!ab/*"], ("ab", "a"))
def test_a_path_is_ignored_as_pathspec_or_git_ignores_it(
    repository: Path, lines: list[str], path: tuple[str, ...]
) -> None:
    ours = ignores(lines, path)
    if ours != GitIgnoreSpec.from_lines(lines).match_file("/".join(path)):
        assert ours == git_ignores(repository, lines, path)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4), PATHS)
def test_a_path_is_ignored_as_git_ignores_it(
    repository: Path, lines: list[str], path: tuple[str, ...]
) -> None:
    assert ignores(lines, path) == git_ignores(repository, lines, path)
