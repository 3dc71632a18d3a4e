"""What a model reads of the tools that search, patch and teach."""

from pathlib import Path

import pytest

from asyncagents.engine.tool import AnyTool
from asyncagents.tools.builtin.glob import glob
from asyncagents.tools.builtin.grep import grep
from asyncagents.tools.builtin.patch import patch
from asyncagents.tools.builtin.skill import skill
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.patch.parse import AddFile, DeleteFile, UpdateFile, parse_patch
from asyncagents.tools.process.processes import Processes


def _tools(folder: Path) -> list[AnyTool]:
    files, read_log = Files(folder), ReadLog()
    processes = Processes({}, folder=folder)
    return [
        glob(files, read_log, processes),
        grep(files, read_log, processes),
        patch(files, read_log),
        skill([]),
    ]


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("number", range(4))
def test_each_tool_and_each_argument_has_a_description(tmp_path: Path, number: int) -> None:
    told = _tools(tmp_path)[number].spec()
    assert "\n- " in told.description
    assert all(field["description"] for field in told.parameters["properties"].values())
    assert told.parameters["required"] == [next(iter(told.parameters["properties"]))]


def test_the_example_in_the_description_of_patch_is_a_valid_patch(tmp_path: Path) -> None:
    text = _tools(tmp_path)[2].description
    shown = text[text.index("*** Begin") : text.index("*** End Patch") + len("*** End Patch")]
    assert [type(section) for section in parse_patch(shown)] == [UpdateFile, UpdateFile, AddFile, DeleteFile]
