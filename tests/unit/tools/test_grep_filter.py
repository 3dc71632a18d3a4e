"""What can be left out of a search is left out, and nothing else."""

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.tools.grep_filter import required, worth_a_look

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
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join), LETTERS)
def test_every_match_has_the_letters_that_are_required(pattern: str, text: str) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    for candidate in (text, f"{text}abc{text}", f"abcd{text}"):
        if compiled.search(candidate):
            assert required(pattern) in candidate.encode()


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        ("def main", "def main"),
        (r"foo\(bar\)", "foo(bar)"),
        ("class [A-Z]+Error", "class "),
        ("colou?r", "colo"),
        ("ab+cdef", "cdef"),
        ("^import os$", "import os"),
        ("a|b", ""),
        ("(abc)def", ""),
        ("ab", ""),
        ("größe", ""),
        ("[abcdef", ""),
        ("abc\\", "abc"),
        ("x{3}yzab", "yzab"),
    ],
)
def test_the_longest_run_of_letters_is_taken(pattern: str, letters: str) -> None:
    assert required(pattern) == letters.encode()


def forest(folder: Path) -> list[str]:
    names = [f"dir {n % 7}/file\n{n}.txt" for n in range(300)]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x\0" * number + (b"needle (here)" if number % 50 == 0 else b"hay"))
    return names


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not there")
def test_ripgrep_tells_which_files_are_worth_a_look(tmp_path: Path) -> None:
    names = forest(tmp_path)
    assert worth_a_look(str(tmp_path), names, b"needle (here)") == names[::50]
    assert worth_a_look(str(tmp_path), names, b"-nothing") == []
    (tmp_path / names[3]).unlink()
    assert (
        worth_a_look(str(tmp_path), names, b"needle (here)") == names
    )  # it failed for one: nobody is left out


def test_without_letters_or_ripgrep_every_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = forest(tmp_path)
    assert worth_a_look(str(tmp_path), names, b"") == names
    assert worth_a_look(str(tmp_path), names[:10], b"needle") == names[:10]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert worth_a_look(str(tmp_path), names, b"needle") == names
