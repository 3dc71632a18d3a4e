"""The README is run: its example, its output, and the commands it names."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEN_LINES = 10


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    [code] = blocks("python")
    path = tmp_path / "example.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.mark.spec("X-07")
def test_the_example_prints_the_output_of_the_readme(example: Path) -> None:
    [shown] = blocks("text")
    ran = run(sys.executable, "-W", "error", example.name, cwd=example.parent)
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_the_example_may_be_run_again_on_its_data(example: Path) -> None:
    first, second = (run(sys.executable, example.name, cwd=example.parent) for _ in range(2))
    assert first.stdout == second.stdout
    assert (example.parent / "data" / "asyncagents.db").exists()


@pytest.mark.spec("X-07")
def test_the_main_function_of_the_example_has_ten_lines_at_most() -> None:
    [code] = blocks("python")
    [main] = [node for node in ast.parse(code).body if getattr(node, "name", "") == "main"]
    assert isinstance(main, ast.AsyncFunctionDef)
    assert main.end_lineno is not None
    assert main.end_lineno - main.lineno <= TEN_LINES


def test_every_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"make ([a-z]+)", "\n".join([*blocks("sh"), *re.findall(r"`(.*?)`", README)])))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert named
    assert named <= targets


def test_every_link_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    for link in re.findall(r"\]\(([^)]+)\)", README):
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif "://" not in link:
            assert (ROOT / os.path.normpath(link.partition("#")[0])).exists(), link
