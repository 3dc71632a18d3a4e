"""`edit`: exactly, or forgivingly when one place alone can be meant; never over what changed."""

import asyncio
import difflib
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.edit import EditArgs
from asyncagents.tools.file.diff import unified_diff
from asyncagents.tools.file.text_replace import NoMatch, replace_text
from tests.support.workspace.file_tool import SECRET, ToolDesk


@pytest.fixture
def desk(tmp_path: Path) -> ToolDesk:
    return ToolDesk(tmp_path)


def _edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"filePath": "a.py", "oldString": old, "newString": new, **more}


async def test_an_edit_is_shown_as_a_diff_and_then_done(desk: ToolDesk) -> None:
    path = desk.put("a.py", "one\ntwo\nthree\n")
    context = desk.context()
    (ask,) = await desk.plan("edit", context, **_edit("two", "2"))
    assert ask.permission == "edit"
    assert ask.metadata["diff"] == "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert path.read_text() == "one\ntwo\nthree\n"
    await desk.run("edit", context, **_edit("two", "2"))
    assert path.read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\nb\n", "b", "c", "a\nc\n"),
        ("a\nb", "b", "c", "a\nc"),
        ("a\nb\n", "b\n", "", "a\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"),
        ("a\nb\n", "a\r\nb", "c", "c\n"),
        ("\ufeffa\nb\n", "a", "c", "\ufeffc\nb\n"),
        ("if x:  \n    y\t\nz\n", "if x:\n    y\n", "if w:\n    v\n", "if w:\n    v\nz\n"),
        ("if x:\r\n    y \r\nz\r\n", "if x:\n    y\n", "if w:\n    v\n", "if w:\r\n    v\r\nz\r\n"),
        (
            "f:\n        if x:\n            y\n",
            "if x:\n    y",
            "if x:\n    z",
            "f:\n        if x:\n            z\n",
        ),
        ("\tif x:\n\t\ty\n", "if x:\n  y\n", "if w:\n", "\tif w:\n"),
        ("a\nend ", "a\nend\n", "b\nend\n", "b\nend"),
        ('say("a\tb")\nend\n', 'say(\\"a\\tb\\")\\nend', 'say(\\"c\\")\\nend', 'say("c")\nend\n'),
    ],
)
def test_the_old_text_is_replaced_and_the_text_around_it_stays(
    text: str, old: str, new: str, after: str
) -> None:
    assert replace_text(text, old, new) == after


@pytest.mark.parametrize(
    ("text", "old", "told"),
    [
        ("a a a", "a", "occurs 3 times .*lines 1, 1, 1.*replaceAll"),
        ("a\nb\na\n", "a", "occurs 2 times .*lines 1, 3"),
        ("x \ny\nx\t\ny\n", "x\ny", "nearly in 2 places"),
        (" x\n y\n  x\n  y\n", "x\ny", "nearly in 2 places"),
        ("a", "b", "found 0 times.*read the file again"),
        ("a\n \nb", "  ", "found 0 times"),
        ("a", "", "oldString is empty"),
        ("a", "new", "are the same"),
        ("", "a", "found 0 times"),
    ],
)
def test_an_old_text_that_is_not_unique_or_missing_is_an_error_with_advice(
    text: str, old: str, told: str
) -> None:
    with pytest.raises(NoMatch, match=told):
        replace_text(text, old, "new")


def test_every_occurrence_is_replaced_on_demand() -> None:
    assert replace_text("a\nb\na\n", "a", "c", every=True) == "c\nb\nc\n"


@given(
    st.text("ab \t\r\n\\n", max_size=30), st.text("ab \t\r\n\\n", max_size=8), st.text("cd\r\n ", max_size=8)
)
def test_an_exact_match_is_replaced_if_it_is_the_only_one(text: str, old: str, new: str) -> None:
    text, old, new = (each.replace("\r", "") for each in (text, old, new))
    try:
        after = replace_text(text, old, new)
    except NoMatch:
        assert not old or old == new or text.count(old) != 1
    else:
        assert text.count(old) <= 1
        assert after == text.replace(old, new) or text.count(old) == 0


@pytest.mark.spec("A-05")
async def test_a_file_that_changed_since_it_was_read_is_not_edited(desk: ToolDesk) -> None:
    path = desk.put("a.py", "one\n")
    await desk.call("read", filePath="a.py")
    path.write_text("one\nmore\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await desk.plan("edit", desk.context(), **_edit("one", "1"))
    await desk.call("read", filePath="a.py")
    await desk.call("edit", **_edit("one", "1"))
    assert path.read_text() == "1\nmore\n"


@pytest.mark.spec("A-05")
async def test_a_change_between_plan_and_run_is_not_edited_over(desk: ToolDesk) -> None:
    path = desk.put("a.py", "one\n")
    context = desk.context()
    await desk.plan("edit", context, **_edit("one", "1"))
    path.write_text("one\nmore\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await desk.run("edit", context, **_edit("one", "1"))
    assert path.read_text() == "one\nmore\n"


async def test_edits_of_one_step_to_one_file_are_all_done(desk: ToolDesk) -> None:
    path = desk.put("a.py", "".join(f"<{number}>\n" for number in range(10)))
    contexts = [desk.context() for _ in range(10)]
    calls = [_edit(f"<{number}>", f"[{number}]") for number in range(10)]
    for context, call in zip(contexts, calls, strict=True):
        await desk.plan("edit", context, **call)
    async with asyncio.TaskGroup() as group:
        for context, call in zip(contexts, calls, strict=True):
            group.create_task(desk.run("edit", context, **call))
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(10))


async def test_a_plan_reveals_nothing_of_a_file_that_the_session_has_not_read(desk: ToolDesk) -> None:
    desk.put("a.py", "KEY=1\n")
    context = desk.context()
    asks = await desk.plan("edit", context, **_edit("KEY=2", "x"))
    assert [ask.permission for ask in asks] == ["edit"]
    with pytest.raises(ToolError, match="found 0 times"):
        await desk.run("edit", context, **_edit("KEY=2", "x"))
    await desk.call("read", filePath="a.py")
    with pytest.raises(ToolError, match="found 0 times"):
        await desk.plan("edit", desk.context(), **_edit("KEY=2", "x"))


@pytest.mark.parametrize("old", [SECRET, "a wrong guess"])
async def test_a_plan_outside_the_project_is_the_same_for_right_and_wrong_guesses(
    desk: ToolDesk, old: str
) -> None:
    given = {"filePath": "../outside/secret.txt", "oldString": old, "newString": "x"}
    asks = await desk.plan("edit", desk.context(), **given)
    assert [ask.permission for ask in asks] == ["external_directory", "edit"]


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "use write to make a file"), (b"a\0b", "binary"), (b"caf\xe9 au lait, one more", "not UTF-8")],
)
async def test_a_missing_or_binary_file_is_not_edited(
    desk: ToolDesk, content: bytes | None, told: str
) -> None:
    if content is not None:
        desk.put("a.py", content)
    with pytest.raises(ToolError, match=told):
        await desk.call("edit", **_edit("a", "b"))


@pytest.mark.parametrize(
    ("content", "kind"),
    [("after\n", Completed), ("before\n", Failed), ("before after\n", type(None)), ("other\n", type(None))],
)
async def test_reconcile_reads_from_the_file_whether_the_edit_was_done(
    desk: ToolDesk, content: str, kind: type[Result | None]
) -> None:
    desk.put("a.py", content)
    reconcile = desk.tools["edit"].reconcile
    assert reconcile is not None
    args = msgspec.convert(_edit("before", "after"), EditArgs)
    assert isinstance(await reconcile(args, desk.context()), kind)


_LINES = st.lists(st.sampled_from(["a", "b", "", "d\x0c\u2028"]), max_size=40)
_FILES = st.tuples(_LINES, st.sampled_from(["", "\n"])).map(lambda made: "\n".join(made[0]) + made[1])


@settings(max_examples=60, deadline=None)
@given(_FILES, _FILES)
def test_a_diff_can_be_applied(tmp_path_factory: pytest.TempPathFactory, before: str, after: str) -> None:
    diff = unified_diff("file", before, after)
    assert bool(diff) == (before != after)
    if not diff or not before or not after:
        return
    folder = tmp_path_factory.mktemp("patch")
    (folder / "file").write_bytes(before.encode())
    command = ["git", "apply", "-p0", "-"]
    subprocess.run(command, cwd=folder, input=diff.encode(), check=True, capture_output=True)
    assert (folder / "file").read_bytes() == after.encode()


@given(_LINES, _LINES)
def test_a_diff_of_files_whose_first_and_last_lines_differ_is_that_of_difflib(
    one: list[str], other: list[str]
) -> None:
    before, after = (
        [f"{side} head", *lines, f"{side} tail"] for side, lines in (("old", one), ("new", other))
    )
    diff = unified_diff("f", *("".join(f"{line}\n" for line in side) for side in (before, after)))
    assert diff.split("\n")[:-1] == [*difflib.unified_diff(before, after, "f", "f", lineterm="")]


def test_a_diff_of_large_texts_is_bounded() -> None:
    before = "".join(f"{number}\n" for number in range(100_000))
    small = unified_diff("f", before, before.replace("\n50000\n", "\nhere\n"))
    assert small.count("\n") == 11
    assert "@@ -49998,7 +49998,7 @@" in small
    assert len(unified_diff("f", before, before[::-1])) < 51_000
