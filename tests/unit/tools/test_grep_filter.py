"""What can be left out of a search is left out, and nothing else."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.tools.file.text import is_binary
from asyncagents.tools.search.grep_lines import Expression
from asyncagents.tools.search.grep_prefilter import prefilter_files
from asyncagents.tools.search.required_literals import RequiredLiterals, find_literals

LETTERS = st.text(alphabet="abcd ", max_size=12)
PIECES = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "d",
        "abc",
        "dab",
        ".",
        "^",
        "$",
        "\\.",
        "\\d",
        "\\b",
        "[ab]",
        "[^]a]",
        "[\\]b]",
        "*",
        "+",
        "?",
        "{2}",
        "{0,1}",
        "(ab)",
        "(?:a|b)",
        "|",
        "\\n",
        "}",
        "é",
        "abc?",
        "abcd*",
        "(?i)",
        "(?i:b)",
        "(?:abc|dab)",
        "(abc)",
        "(?=a)",
        "(?<!b)",
        "(?:ab)+",
        "(?:ab)*",
        "\\s",
        "\\w",
        "\\r",
        "\\Z",
        "ſ",
        "A",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join), LETTERS)
def test_every_match_of_a_pattern_contains_its_required_literals(pattern: str, text: str) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    for candidate in (text, f"{text}abc{text}", f"abcd{text}", text.upper(), f"ſ{text}"):
        if compiled.search(candidate):
            assert find_literals(pattern).may_match(candidate.encode())


@given(
    st.lists(PIECES, max_size=8).map("".join),
    st.text(alphabet="abcdAB \n\r\t\x1c\x0bſé", max_size=30).map(str.encode) | st.binary(max_size=12),
)
def test_a_search_finds_exactly_the_lines_that_match(pattern: str, data: bytes) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    fitting = [number for number, line in enumerate(lines, 1) if compiled.search(line)]
    found = [match.number for match in Expression(compiled, hits=False).find_matches(data, "x")]
    assert found == (fitting if not is_binary(data) else [])


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        ("def main", ["def main"]),
        (r"foo\(bar\)", ["foo(bar)"]),
        ("class [A-Z]+Error", ["class "]),
        ("colou?r", ["colo"]),
        ("ab+cdef", ["cdef"]),
        ("^import os$", ["import os"]),
        ("a|b", []),
        ("(abc)def", ["abc"]),
        ("ab", ["ab"]),
        ("größe", ["gr"]),
        ("[abcdef", []),
        ("abc\\", []),
        ("x{3}yzab", ["yzab"]),
        ("(zebra|quagga)_[a-z]+", ["zebra", "quagga"]),
        ("zebra|", []),
        ("(?:zebra){2}", ["zebra"]),
        ("(?i:zebra)", []),
        ("\\x61bc", ["abc"]),
        ("ab\\ncd", ["ab"]),
        ("|".join(f"word{number}x" for number in range(40)), ["word"]),
    ],
)
def test_the_longest_literals_of_a_pattern_are_required(pattern: str, letters: list[str]) -> None:
    assert find_literals(pattern) == RequiredLiterals(tuple(each.encode() for each in letters))


def test_literals_of_a_pattern_that_ignores_case_match_in_any_case() -> None:
    found = find_literals("(?i)Zebra")
    assert found == RequiredLiterals((b"zebra",), any_case=True)
    assert found.may_match(b"a ZeBRA")
    assert not found.may_match(b"a horse")
    assert found.may_match("no such animal, but a long s: ſ".encode())


def forest(folder: Path) -> list[str]:
    names = [f"dir {n % 7}/file\n{n}.txt" for n in range(300)]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x\0" * number + (b"needle (here)" if number % 50 == 0 else b"hay"))
    return names


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not there")
def test_ripgrep_selects_the_files_that_contain_a_literal(tmp_path: Path) -> None:
    names = forest(tmp_path)
    assert prefilter_files(str(tmp_path), names, RequiredLiterals((b"needle (here)",))) == names[::50]
    assert prefilter_files(str(tmp_path), names, RequiredLiterals((b"-nothing",))) == []
    (tmp_path / names[3]).unlink()
    assert (
        prefilter_files(str(tmp_path), names, RequiredLiterals((b"needle (here)",))) == names
    )  # it failed for one: nobody is left out


def test_all_files_are_searched_without_literals_or_ripgrep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = forest(tmp_path)
    assert prefilter_files(str(tmp_path), names, RequiredLiterals()) == names
    assert prefilter_files(str(tmp_path), names[:10], RequiredLiterals((b"needle",))) == names[:10]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert prefilter_files(str(tmp_path), names, RequiredLiterals((b"needle",))) == names
