"""Where the modules of the suite stand, and what they may reach."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.path import ROOT

TESTS = ROOT / "tests"
PROGRAMS = ("golden", "peer", "recorded", "simulation")
"""Folders with modules of their own: each is a program that tests start."""
PRIVATE = re.compile(r"_(store|bus|dispatcher|inputs|input_builder)")


@cache
def read_modules() -> list[tuple[Path, ast.Module]]:
    return [
        (path.relative_to(TESTS), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(TESTS.rglob("*.py"))
    ]


def test_modules_that_tests_share_stand_in_support() -> None:
    names = [path for path, _ in read_modules() if path.parts[0] not in ("support", *PROGRAMS)]
    own = re.compile(r"test_\w+|conftest|__main__|__init__")
    assert [str(path) for path in names if not own.fullmatch(path.stem)] == []


def test_no_test_module_is_imported_by_another_module() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in read_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and re.fullmatch(r"tests\..*\btest_\w+", node.module or "")
    ]
    assert found == []


def test_the_inside_of_a_runtime_is_reached_by_its_handle() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in read_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and PRIVATE.fullmatch(node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert found == [], "use asyncagents.testing.inside"
