"""docs/delegation.md: its program prints what stands beside it, and its tables leave nothing out."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.tools import delegation_tools
from tests.support.page import code_blocks
from tests.support.path import DOCS

PAGE = (DOCS / "delegation.md").read_text(encoding="utf-8")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (code,) = code_blocks("delegation.md")
    file = tmp_path / "program.py"
    file.write_text(code, encoding="utf-8")
    return file


@pytest.mark.spec("X-07")
def test_the_program_of_the_page_prints_the_shown_output(program: Path) -> None:
    (_, shown) = code_blocks("delegation.md", "text")
    command = [sys.executable, "-W", "error", program.name]
    ran = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_every_limit_has_its_line_and_its_default() -> None:
    limits = PAGE.split("## Limits")[1].split("## What is promised")[0]
    defaults = msgspec.to_builtins(DelegationConfig())
    lines = [f'"{name}": {msgspec.json.encode(value).decode()}' for name, value in defaults.items()]
    assert [line for line in lines if line not in limits] == []


def test_every_tool_has_its_line() -> None:
    both = DelegationConfig(tools="both")
    names = [tool.name for tool in delegation_tools(None, both)]  # type: ignore[arg-type]
    table = PAGE.split("## Notices")[0]
    assert [name for name in names if f"`{name}(" not in table] == []
