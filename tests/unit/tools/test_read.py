"""`read`: lines with numbers, parts of long files, and words for what is no text."""

import os
import struct
from pathlib import Path

import pytest

from asyncagents.errors import ToolError
from tests.support.workspace.file_tool import SECRET, ToolDesk


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path)


async def test_a_file_is_shown_with_line_numbers(desk: ToolDesk) -> None:
    desk.put("a.txt", "one\ntwo\n")
    result = await desk.call("read", filePath="a.txt")
    assert result.output == "     1\tone\n     2\ttwo"
    assert result.title == "a.txt"


@pytest.mark.parametrize("content", ["one\r\ntwo\r\n", "\ufeffone\ntwo", "one\ntwo"])
async def test_line_endings_and_marks_are_not_shown(desk: ToolDesk, content: str) -> None:
    desk.put("a.txt", content)
    assert (await desk.call("read", filePath="a.txt")).output == "     1\tone\n     2\ttwo"


async def test_offset_and_limit_choose_lines_and_the_rest_is_named(desk: ToolDesk) -> None:
    desk.put("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    result = await desk.call("read", filePath="a.txt", offset=3, limit=2)
    assert result.output.splitlines() == [
        "     3\tline 3",
        "     4\tline 4",
        "(Shown up to 4 of 10; go on with offset 5.)",
    ]
    assert "Shown" not in (await desk.call("read", filePath="a.txt", offset=9)).output


async def test_a_long_file_is_cut_after_2000_lines_and_can_be_read_on(desk: ToolDesk) -> None:
    desk.put("a.txt", "".join(f"{number}\n" for number in range(1, 2501)))
    first = await desk.call("read", filePath="a.txt")
    assert first.output.endswith("go on with offset 2001.)")
    rest = await desk.call("read", filePath="a.txt", offset=2001)
    assert rest.output.endswith("2500\t2500")


async def test_long_lines_are_cut_and_the_whole_stays_small(desk: ToolDesk) -> None:
    desk.put("a.txt", ("x" * 5000 + "\n") * 100)
    result = await desk.call("read", filePath="a.txt")
    assert "(line cut)" in result.output
    assert len(result.output) < 51_000
    assert result.metadata["truncated"]


async def test_an_offset_past_the_end_is_an_error_with_the_number_of_lines(desk: ToolDesk) -> None:
    desk.put("a.txt", "one\n")
    with pytest.raises(ToolError, match="there are 1 lines"):
        await desk.call("read", filePath="a.txt", offset=2)


async def test_the_output_for_an_empty_file_is_a_note(desk: ToolDesk) -> None:
    desk.put("a.txt", "")
    assert (await desk.call("read", filePath="a.txt")).output == "(the file is empty)"


async def test_a_missing_file_names_similar_ones(desk: ToolDesk) -> None:
    for name in ("src/runner.py", "src/Runtime.py", "src/other.md"):
        desk.put(name, "x")
    with pytest.raises(ToolError, match=r"src/runer\.py does not exist.*Did you mean runner\.py"):
        await desk.call("read", filePath="src/runer.py")
    with pytest.raises(ToolError, match=r"Did you mean Runtime\.py"):
        await desk.call("read", filePath="src/runtime.py")


async def test_a_binary_file_is_refused_with_a_hint(desk: ToolDesk) -> None:
    desk.put("a.bin", bytes(range(256)))
    with pytest.raises(ToolError, match="binary file; look at it with a command"):
        await desk.call("read", filePath="a.bin")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480),
            "image/png, 640 x 480 pixels",
        ),
        (b"GIF89a" + struct.pack("<HH", 3, 5) + b"\0", "image/gif, 3 x 5 pixels"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg, 5 bytes"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"%PDF-1.7\n\0", "application/pdf, 10 bytes; use a command such as pdftotext"),
        (b"\x89PNG\r\n\x1a\n", "image/png, 8 bytes"),
    ],
)
async def test_pictures_and_documents_are_described(desk: ToolDesk, data: bytes, words: str) -> None:
    desk.put("media", data)
    assert words in (await desk.call("read", filePath="media")).output


async def test_a_folder_is_listed(desk: ToolDesk) -> None:
    desk.put("src/a.py", "x")
    desk.put("src/sub/b.py", "x")
    (desk.root / "src/link").symlink_to("a.py")
    os.mkdir(os.fsencode(desk.root / "src") + b"/\xff")
    lines = (await desk.call("read", filePath="src")).output.splitlines()
    assert lines[1:4] == ["a.py", "link@", "sub/"]
    assert lines[4].encode()  # a name that is no text can still be told


@pytest.mark.spec("A-05")
async def test_the_rules_are_asked_about_the_real_name(desk: ToolDesk) -> None:
    desk.put(".env", "KEY=1")
    (desk.root / "harmless.txt").symlink_to(".env")
    asks = await desk.plan("read", desk.context(), filePath="harmless.txt")
    assert [(ask.permission, ask.patterns) for ask in asks] == [("read", (".env",))]


async def test_a_file_outside_asks_for_its_folder_and_is_read_once_granted(desk: ToolDesk) -> None:
    context = desk.context()
    asks = await desk.plan("read", context, filePath="../outside/secret.txt")
    assert [ask.permission for ask in asks] == ["external_directory", "read"]
    assert asks[0].patterns == (f"{desk.outside}/*",)
    assert asks[0].always == (f"{desk.outside}/secret.txt",)
    assert asks[0].exact is True
    assert SECRET in (await desk.run("read", context, filePath="../outside/secret.txt")).output


async def test_a_file_is_not_read_without_a_plan(desk: ToolDesk) -> None:
    desk.put("a", "x")
    with pytest.raises(ToolError, match="call the tool again"):
        await desk.run("read", desk.context(), filePath="a")


async def test_a_link_that_turns_outside_after_the_plan_is_not_followed(desk: ToolDesk) -> None:
    desk.put("a/secret.txt", "mine")
    context = desk.context()
    await desk.plan("read", context, filePath="a/secret.txt")
    (desk.root / "a").rename(desk.root / "b")
    (desk.root / "a").symlink_to(desk.outside)
    with pytest.raises(ToolError):
        await desk.run("read", context, filePath="a/secret.txt")


@pytest.mark.spec("Z-06")
async def test_an_approval_for_a_name_with_a_wildcard_is_exact(desk: ToolDesk) -> None:
    (desk.outside / "*").mkdir()
    asks = await desk.plan("read", desk.context(), filePath="../outside/*/x")
    assert [(ask.always, ask.exact) for ask in asks] == [((f"{desk.outside}/*/x",), True)] * 2
    (listed, _) = await desk.plan("list", desk.context(), path="../outside/*")
    assert listed.always == ()


async def test_a_file_too_large_is_refused_with_a_hint(desk: ToolDesk) -> None:
    with desk.put("big", "").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    with pytest.raises(
        ToolError, match="larger than 10 MiB; look at parts of it, or change it, by a command"
    ):
        await desk.call("read", filePath="big")
