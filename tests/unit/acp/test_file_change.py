"""Changes of files: hunks of our own diffs, read back as the lines before and after."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.acp.file_change import MAX_HUNKS, patched_paths, show_changes
from asyncagents.acp.shape import DiffContent
from asyncagents.tools.file.diff import unified_diff

LINES = [
    "a",
    "b",
    "-- x",
    "--- x",
    "++ y",
    "+++ y",
    "@@ -1,1 +1,1 @@",
    "",
    "c",
    "x\x0c",
    "\u2028",
    "\\ No newline",
]
TEXTS = st.lists(st.sampled_from(LINES), max_size=12)
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** Add File: /tmp/b\n+z\n*** End Patch"


def change(tool: str, arguments: dict[str, Any], **metadata: Any) -> tuple[DiffContent, ...]:
    return show_changes(tool, arguments, metadata, "/p/app")


def test_an_edit_shows_the_texts_of_its_arguments() -> None:
    (shown,) = change("edit", {"filePath": "a", "oldString": "x", "newString": "y"})
    assert shown == DiffContent(path="/p/app/a", old_text="x", new_text="y")


def test_a_write_of_a_new_file_has_no_text_before() -> None:
    diff = unified_diff("app/a", "", "new\n")
    (shown,) = change("write", {"filePath": "a", "content": "new\n"}, diff=diff, filepath="/p/app/a")
    assert shown == DiffContent(path="/p/app/a", new_text="new\n")


def test_a_write_over_a_file_shows_what_it_replaces() -> None:
    diff = unified_diff("app/a", "old\nsame\n", "new\nsame\n")
    (shown,) = change("write", {"filePath": "a", "content": "new\nsame\n"}, diff=diff, filepath="/p/app/a")
    assert shown == DiffContent(path="/p/app/a", old_text="old\nsame\n", new_text="new\nsame\n")


UNREADABLE = {
    "none": None,
    "empty": "",
    "no preview": "(no preview: it cannot be read)",
    "too large": "--- a\n+++ a\n(the files are too large for their difference to be shown)\n",
    "cut": unified_diff("a", "old\n" * 20_000, "new\n"),
    "too many hunks": "".join(unified_diff("a", f"{n}\n", "x\n") for n in range(MAX_HUNKS + 1)),
    "renamed": "rename from a\nrename to b\n" + unified_diff("b", "x\n", "y\n"),
}


@pytest.mark.parametrize("diff", UNREADABLE.values(), ids=UNREADABLE)
def test_a_write_without_a_readable_diff_shows_its_content(diff: str | None) -> None:
    (shown,) = change("write", {"filePath": "a", "content": "new\n"}, diff=diff)
    assert shown == DiffContent(path="/p/app/a", new_text="new\n")


def test_a_patch_shows_each_file_it_changes() -> None:
    diff = (
        unified_diff("app/a.txt", "x\n", "y\n") + unified_diff("b", "", "z\n") + unified_diff("c", "q\n", "")
    )
    shown = change("patch", {"patchText": PATCH}, diff=diff, files=["/p/app/a.txt", "/tmp/b", "/p/c"])
    assert shown == (
        DiffContent(path="/p/app/a.txt", old_text="x\n", new_text="y\n"),
        DiffContent(path="/tmp/b", new_text="z\n"),
        DiffContent(path="/p/c", old_text="q\n", new_text=""),
    )


@pytest.mark.parametrize("diff", UNREADABLE.values(), ids=UNREADABLE)
def test_a_patch_whose_diff_cannot_be_read_in_full_shows_no_part_of_it(diff: str | None) -> None:
    assert change("patch", {"patchText": PATCH}, diff=diff) == ()


def test_each_file_of_a_patch_is_found_by_its_whole_name() -> None:
    diff = unified_diff("src/a.py", "x\n", "y\n") + unified_diff("a.py", "1\n", "2\n")
    shown = change("patch", {}, diff=diff, files=["/w/src/a.py", "/w/a.py"])
    assert [each.path for each in shown] == ["/w/src/a.py", "/w/a.py"]


@pytest.mark.parametrize(
    ("old", "new"), [("a\n", "a"), ("a", "a\n"), ("a\r\n", "b\r\n"), ("\x0cx\n", "x\x0c\n")]
)
def test_ends_of_lines_are_kept(old: str, new: str) -> None:
    (shown,) = change("patch", {}, diff=unified_diff("a", old, new))
    assert (shown.old_text, shown.new_text) == (old, new)


def test_a_patch_names_its_files_before_it_runs() -> None:
    assert patched_paths(PATCH, "/p") == ["/p/a.txt", "/tmp/b"]


@given(old=TEXTS, new=TEXTS)
def test_hunks_are_read_back_whatever_their_lines_look_like(old: list[str], new: list[str]) -> None:
    before, after = ("\n".join(each) for each in (old, new))
    shown = change("patch", {}, diff=unified_diff("a", before, after))
    assert bool(shown) == (before != after)
    for each in shown:
        assert (each.old_text or "") in before
        assert each.new_text in after
