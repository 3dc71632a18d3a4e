"""`scripts/words.py` finds each kind of unclear word, and nothing in clear code."""

from pathlib import Path

import pytest

from scripts.words import MAX_MODULES, find_problems

CLEAR = '''"""Reads rows."""

class Settled(Struct, tag="settled"):
    """A call that has its result."""

def need() -> None:
    """Say what is missing."""
'''


def write_module(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_clear_code_has_no_problems(tmp_path: Path) -> None:
    write_module(tmp_path, "clear.py", CLEAR)
    assert find_problems(tmp_path) == []


@pytest.mark.parametrize("name", ["told", "_settled", "heard", "unseen"])
def test_a_bare_participle_is_no_name_of_a_function(tmp_path: Path, name: str) -> None:
    write_module(tmp_path, "unclear.py", f"def {name}() -> None: ...\n")
    (problem,) = find_problems(tmp_path)
    assert f"{name} is a bare participle" in problem


def test_only_a_state_of_a_tagged_union_may_be_a_bare_participle(tmp_path: Path) -> None:
    write_module(tmp_path, "unclear.py", "class Settled: ...\n")
    (problem,) = find_problems(tmp_path)
    assert "Settled is a bare participle" in problem


def test_a_public_class_name_occurs_once(tmp_path: Path) -> None:
    write_module(tmp_path, "one.py", "class Row: ...\nclass _Row: ...\n")
    write_module(tmp_path, "room/two.py", "class Row: ...\nclass _Row: ...\n")
    (problem,) = find_problems(tmp_path)
    assert "class Row is defined 2 times: one.py:1, room/two.py:1" in problem


@pytest.mark.parametrize("line", ['"""Wakes whoever waits."""', "x = 1  # nobody reads it"])
def test_a_sentence_names_its_subject(tmp_path: Path, line: str) -> None:
    write_module(tmp_path, "unclear.py", f"{line}\n")
    (problem,) = find_problems(tmp_path)
    assert "name the process, caller or row" in problem


def test_a_package_has_at_most_so_many_modules(tmp_path: Path) -> None:
    for number in range(MAX_MODULES + 1):
        write_module(tmp_path, f"room/m{number}.py", "")
    (problem,) = find_problems(tmp_path)
    assert f"room: {MAX_MODULES + 1} modules" in problem
