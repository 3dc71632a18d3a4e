"""docs/transfer.md: its program prints what stands beside it, and its table leaves no file out."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncagents.llm.scripted import call
from tests.support.page import code_blocks
from tests.support.path import DOCS
from tests.support.runtime import open_stage
from tests.support.tool import build_pending_tool
from tests.support.transfer import export_files
from tests.support.wait import PATIENCE

PAGE = (DOCS / "transfer.md").read_text(encoding="utf-8")


@pytest.mark.spec("X-07")
def test_the_program_prints_the_output_that_the_page_shows(tmp_path: Path) -> None:
    (code,) = code_blocks("transfer.md")
    (shown,) = code_blocks("transfer.md", "text")
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


@pytest.mark.spec("P-13", "X-07")
async def test_the_page_names_every_file_of_an_export(tmp_path: Path) -> None:
    async with open_stage(
        tmp_path / "here", {"ship": [[call("deploy")]]}, tools=[build_pending_tool("deploy")]
    ) as at:
        await asyncio.wait_for(at.runtime.prompt(at.session_id, "ship"), PATIENCE)
        found = await export_files(at.runtime, tmp_path / "files")
    named = {
        re.sub(r"\{\w+\}", "*", name)
        for name in re.findall(r"^\| `([\w/{}.]+\.json)` \|", PAGE, re.MULTILINE)
    }
    written = {re.sub(r"\b(?!index|export)\w{20,}\b", "*", name) for name in found}
    assert written | {"todo/*.json"} == named
