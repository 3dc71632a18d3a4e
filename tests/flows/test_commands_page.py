"""docs/commands.md is run: its code prints what stands below it, and its command is one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncagents.domain.agent.command import FilePiece, ShellPiece, fill_template

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.spec("S-08")
@pytest.mark.parametrize(("code", "shown"), list(zip(blocks("python"), blocks("text"), strict=True)))
def test_the_code_of_the_page_prints_the_shown_output(tmp_path: Path, code: str, shown: str) -> None:
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_the_command_of_the_page_has_its_shell_and_its_file() -> None:
    (markdown,) = blocks("markdown")
    pieces = fill_template(markdown.split("---\n")[2], "tests and docs")
    assert [piece.command for piece in pieces if isinstance(piece, ShellPiece)] == ["git diff --stat"]
    assert [piece.path for piece in pieces if isinstance(piece, FilePiece)] == ["CONTRIBUTING.md"]
