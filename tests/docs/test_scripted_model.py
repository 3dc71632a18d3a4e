"""What the pages show below a prompt of the scripted model is what `asyncagents run` prints."""

import asyncio
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from tests.support.fenced_block import Block, read_blocks
from tests.support.process.command_line import PROGRAM, open_desk

PAGES = ("docs/configuration.md", "docs/delegation.md")
TEST = "tests/docs/test_scripted_model.py"
VARIES = re.compile(r"\bses_\w+|\d+s(?=,)")
"""Ids, and how long a task took."""


def shown_outputs() -> list[tuple[Block, Block]]:
    """Return each block of commands with the output below it."""
    blocks = [block for page in PAGES for block in read_blocks(page)]
    return [(blocks[at - 1], shown) for at, shown in enumerate(blocks) if TEST in shown.tests]


@pytest.mark.slow
@pytest.mark.parametrize(("commands", "shown"), shown_outputs(), ids=str)
async def test_a_prompt_of_a_page_prints_the_shown_lines(
    tmp_path: Path, commands: Block, shown: Block
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    async with open_desk(tmp_path / "desk") as (desk, _):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-e", "-c", commands.text),
            cwd=folder,
            env=desk.environment(
                {
                    "ASYNCAGENTS_CONFIG": str(desk.project / "asyncagents.json"),
                    "PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin",
                }
            ),
            stdout=PIPE,
            stderr=STDOUT,
        )
        printed, _ = await process.communicate()
    assert VARIES.sub("…", printed.decode()) == VARIES.sub("…", shown.text)


def test_the_pages_show_the_output_of_all_their_prompts() -> None:
    assert len(shown_outputs()) == 4
