"""`write`: shown before it is done, only over what is known, and in the manner of the file."""

from pathlib import Path

import pytest

from asyncagents.errors import ToolError
from tests.support.workspace.file_tool import SECRET, ToolDesk


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path)


async def test_a_new_file_is_shown_as_a_diff_and_then_written(desk: ToolDesk) -> None:
    context = desk.context()
    given = {"filePath": "src/new.py", "content": "a = 1\nb = 2\n"}
    (ask,) = await desk.plan("write", context, **given)
    assert ask.permission == "edit"
    assert ask.patterns == ("src/new.py",)
    assert ask.metadata["filepath"] == str(desk.root / "src/new.py")
    assert ask.metadata["diff"] == "--- src/new.py\n+++ src/new.py\n@@ -0,0 +1,2 @@\n+a = 1\n+b = 2\n"
    assert not (desk.root / "src").exists()
    result = await desk.run("write", context, **given)
    assert (desk.root / "src/new.py").read_text() == "a = 1\nb = 2\n"
    assert result.metadata["diff"] == ask.metadata["diff"]
    assert result.metadata["diagnostics"] == {}


@pytest.mark.spec("A-05")
async def test_a_file_that_was_not_read_is_not_overwritten(desk: ToolDesk) -> None:
    desk.put("a", "old\n")
    with pytest.raises(ToolError, match="read it before you write it"):
        await desk.call("write", filePath="a", content="new\n")
    await desk.call("read", filePath="a")
    await desk.call("write", filePath="a", content="new\n")
    assert (desk.root / "a").read_text() == "new\n"


@pytest.mark.spec("A-05")
async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(desk: ToolDesk) -> None:
    path = desk.put("a", "old\n")
    await desk.call("read", filePath="a")
    path.write_text("someone's\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await desk.call("write", filePath="a", content="new\n")
    assert path.read_text() == "someone's\n"


async def test_a_change_between_plan_and_run_is_not_overwritten(desk: ToolDesk) -> None:
    path = desk.put("a", "old\n")
    await desk.call("read", filePath="a")
    context = desk.context()
    await desk.plan("write", context, filePath="a", content="new\n")
    path.write_text("someone's\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await desk.run("write", context, filePath="a", content="new\n")
    assert path.read_text() == "someone's\n"


async def test_a_file_that_appears_between_plan_and_run_is_not_overwritten(desk: ToolDesk) -> None:
    context = desk.context()
    await desk.plan("write", context, filePath="a", content="new\n")
    path = desk.put("a", "someone's\n")
    with pytest.raises(ToolError, match="read it before"):
        await desk.run("write", context, filePath="a", content="new\n")
    assert path.read_text() == "someone's\n"


async def test_a_read_of_one_session_does_not_count_for_another(desk: ToolDesk) -> None:
    desk.put("a", "old\n")
    await desk.call("read", filePath="a")
    with pytest.raises(ToolError, match="not read in this session"):
        await desk.plan("write", desk.context("ses_2"), filePath="a", content="new\n")


async def test_a_write_whose_content_is_already_there_succeeds(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    desk = ToolDesk(tmp_path / "first")
    desk.put("a", "new\n")  # written before the process died, and known to nobody since
    result = await desk.call("write", filePath="a", content="new\n")
    assert "already" in result.output


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd", b"c\r\nd"),
        (b"a\nb\n", "c\r\nd\r\n", b"c\nd\n"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\r\n", "\ufeffc\n", b"\xef\xbb\xbfc\r\n"),
        (b"a", "c\n", b"c\n"),
        (b"caf\xe9 au lait\r\n", "c\n", b"c\n"),
        (b"", "c\r\n", b"c\r\n"),
    ],
)
async def test_line_endings_and_byte_order_mark_are_kept(
    desk: ToolDesk, before: bytes, content: str, after: bytes
) -> None:
    path = desk.put("a", before)
    await desk.call("read", filePath="a")
    await desk.call("write", filePath="a", content=content)
    assert path.read_bytes() == after


async def test_writes_in_a_row_need_no_read_between(desk: ToolDesk) -> None:
    await desk.call("write", filePath="a", content="one\n")
    await desk.call("write", filePath="a", content="two\n")
    assert (desk.root / "a").read_text() == "two\n"


async def test_a_write_outside_asks_for_folder_and_edit_and_reveals_nothing(desk: ToolDesk) -> None:
    context = desk.context()
    given = {"filePath": "../outside/secret.txt", "content": "x"}
    asks = await desk.plan("write", context, **given)
    assert [ask.permission for ask in asks] == ["external_directory", "edit"]
    with pytest.raises(ToolError, match="read it before"):
        await desk.run("write", context, **given)
    assert (desk.outside / "secret.txt").read_text() == SECRET


async def test_a_granted_new_file_outside_is_written(desk: ToolDesk) -> None:
    await desk.call("write", filePath=str(desk.outside / "new"), content="x")
    assert (desk.outside / "new").read_text() == "x"


async def test_the_plan_changes_with_the_file_so_that_an_old_answer_does_not_count(desk: ToolDesk) -> None:
    given = {"filePath": "a", "content": "new\n"}
    desk.put("a", "old\n")
    await desk.call("read", filePath="a")
    before = await desk.plan("write", desk.context(), **given)
    desk.put("a", "other\n")
    await desk.call("read", filePath="a")
    assert await desk.plan("write", desk.context(), **given) != before


@pytest.mark.parametrize("path", ["", "folder", ".", "a\0b", "file/below", "folder/", "n" * 300])
async def test_a_path_that_cannot_be_written_is_a_tool_error(desk: ToolDesk, path: str) -> None:
    (desk.root / "folder").mkdir()
    desk.put("file", "x")
    with pytest.raises(ToolError):
        await desk.call("write", filePath=path, content="x")
