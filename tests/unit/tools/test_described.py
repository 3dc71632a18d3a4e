"""What a model reads of the tools that search, patch and teach."""

from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.self_contained import schema_of_type
from asyncagents.engine.tool import AnyTool
from asyncagents.tools.builtin.glob import glob
from asyncagents.tools.builtin.grep import grep
from asyncagents.tools.builtin.patch import patch
from asyncagents.tools.builtin.question import QuestionArgs
from asyncagents.tools.builtin.skill import skill
from asyncagents.tools.builtin.todo import TodoWriteArgs
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.patch.parse import AddFile, DeleteFile, UpdateFile, parse_patch
from asyncagents.tools.process.processes import Processes
from tests.support.hostile.argument import arguments


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


@pytest.mark.parametrize("kind", [TodoWriteArgs, QuestionArgs])
@given(data=st.data())
def test_a_schema_without_references_accepts_what_the_one_with_them_does(
    kind: type[TodoWriteArgs | QuestionArgs], data: st.DataObject
) -> None:
    inlined = schema_of_type(kind)
    value = data.draw(arguments(inlined))

    assert jsonschema_rs.is_valid(inlined, value) == jsonschema_rs.is_valid(msgspec.json.schema(kind), value)
