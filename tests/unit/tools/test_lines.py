"""Lines of large files: the same as if the whole were split, found a piece at a time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncagents.errors import ToolError
from asyncagents.tools.file import lines
from asyncagents.tools.file.lines import count_lines, lines_from
from asyncagents.tools.file.text import MOST_TEXT_LINES
from tests.support.workspace.file_tool import ToolDesk


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Pieces that a short text has several of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "PIECE", 7)
        yield


@given(st.binary(max_size=60) | st.text("ab\n\u20ac", max_size=60).map(str.encode))
@example(b"")
@example(b"\n")
@example(b"a\n" * 20)
@example(b"\n" * 14)
def test_each_line_is_found_by_its_number(data: bytes) -> None:
    expected = data.decode("utf-8", "replace").split("\n")
    if not expected[-1]:
        expected.pop()
    assert count_lines(data) == len(expected)
    for number in range(1, len(expected) + 1):
        assert list(lines_from(data, number, 100)) == expected[number - 1 :]


def test_of_a_long_line_no_more_is_read_than_is_shown() -> None:
    (first, second) = lines_from("€".encode() * 10_000 + b"\nend", 1, 10)
    assert first.startswith("€" * 11)
    assert len(first) < 100
    assert second == "end"


async def test_a_file_of_many_lines_is_read_at_its_end_and_not_changed(tmp_path: Path) -> None:
    desk = ToolDesk(tmp_path)
    count = MOST_TEXT_LINES + 10
    desk.put("many", "\n" * (count - 1) + "last\n")
    read = await desk.call("read", filePath="many", offset=count)
    assert read.output == f"{count:6d}\tlast"
    assert read.metadata == {"lines": count, "truncated": False}
    with pytest.raises(ToolError, match="has more than 10 MiB or 200,000 lines; change it with a command"):
        await desk.call("edit", filePath="many", oldString="last", newString="first")
    written = await desk.call("write", filePath="many", content="short\n")
    assert "too large for their difference to be shown" in written.metadata["diff"]


async def test_a_name_that_is_nearly_right_is_found_among_thousands(tmp_path: Path) -> None:
    desk = ToolDesk(tmp_path)
    for number in range(1_000):
        desk.put(f"many/{'abc' * 60}{number}", "")
    desk.put("many/README.md", "")
    with pytest.raises(ToolError, match=r"Did you mean many/README.md|Did you mean README.md"):
        await desk.call("read", filePath="many/README.nd")
