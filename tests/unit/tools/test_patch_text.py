"""The text of a patch: what it says, where each hunk fits, and errors that name the line."""

from collections.abc import Iterator
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncagents.errors import ToolError
from asyncagents.tools.file.text_replace import NoMatch
from asyncagents.tools.patch.apply import apply_hunks
from asyncagents.tools.patch.parse import (
    NO_NEWLINE,
    AddFile,
    DeleteFile,
    Hunk,
    PatchLine,
    UpdateFile,
    parse_patch,
)


def _text(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def _hunks(*lines: str) -> tuple[Hunk, ...]:
    (section,) = parse_patch(_text("*** Update File: f", *lines))
    assert isinstance(section, UpdateFile)
    return section.hunks


def test_every_kind_of_section_is_read() -> None:
    assert parse_patch(
        _text(
            *("*** Add File: a b.txt ", "+one", "+", "+two", "", "*** Delete File: c"),
            *("*** Update File: d", "*** Move to: e", "@@ class X", "@@   def f():", " a", "-b", "+c", ""),
            *("@@ -3,2 +3,2 @@ def g():", "", "+x", "*** End of File", "*** Add File: empty"),
        )
    ) == (
        AddFile("a b.txt", "one\n\ntwo\n"),
        DeleteFile("c"),
        UpdateFile(
            "d",
            (
                Hunk(
                    at=10,
                    headings=("class X", "def f():"),
                    lines=(PatchLine(" ", "a"), PatchLine("-", "b"), PatchLine("+", "c")),
                ),
                Hunk(
                    at=16,
                    headings=("def g():",),
                    lines=(PatchLine(" ", ""), PatchLine("+", "x")),
                    at_end=True,
                ),
            ),
            "e",
        ),
        AddFile("empty", ""),
    )


def test_windows_line_ends_and_blank_lines_around_it_do_not_matter() -> None:
    text = _text("*** Add File: a", "+one")
    assert (
        parse_patch("\n \n" + text.replace("\n", "\r\n") + "\n\n")
        == parse_patch(text)
        == (AddFile("a", "one\n"),)
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"Line 2 of the patch is the end.*Begin Patch"),
        ("--- a\n+++ b", r"Line 1 .*'--- a'; expected '\*\*\* Begin Patch'"),
        ("*** Begin Patch", r"is the end of the patch; expected .*End Patch"),
        ("*** Begin Patch\n*** End Patch", "changes nothing"),
        (_text("*** Frob: a"), r"Line 2 .*Frob.*expected '\*\*\* Add File:'"),
        (_text("*** Add File:"), r"Line 2 .*a path after"),
        (_text("*** Add File: a", "one"), r"Line 3 .*'one'.*begins with '\+'"),
        (_text("*** Update File: a"), r"Line 3 .*a hunk"),
        (_text("*** Update File: a", "@@", "one"), r"Line 4 .*'one'.*put a blank before"),
        (_text("*** Update File: a", "@@", " one"), r"Line 5 .*add or remove in the hunk .*line 3"),
        (_text("*** Update File: a", "*** Foo"), r"Line 3 .*Foo"),
        (_text("*** Delete File: a", "-x"), r"Line 3 .*'-x'"),
        (_text("*** Delete File: a") + "more", r"Line 4 .*'more'; expected nothing"),
        (_text("*** Add File: a", "+\ud800"), "half a character"),
    ],
)
def test_an_error_of_a_patch_names_the_line_and_the_expected_text(text: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        parse_patch(text)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(_text("*** Update File: a", "@@", "-b").split("\n"))).map("\n".join)
)
def test_any_text_is_a_patch_or_a_tool_error(text: str) -> None:
    told = "."
    try:
        assert parse_patch(text)
    except ToolError as error:
        told = str(error)
    assert told.endswith(".")


TWICE = "def f():\n    x = 1\n    return x\n\ndef g():\n    x = 1\n    return x\n"


@pytest.mark.parametrize(
    ("text", "lines", "after"),
    [
        ("a\nb\nc\n", ("@@", " a", "-b", "+B"), "a\nB\nc\n"),
        ("a\nb\nc\n", (" a", "-b", "+B"), "a\nB\nc\n"),
        ("a\nb\nc", ("@@", "-c", "+C", "+d"), "a\nb\nC\nd"),
        ("a  \nb\t\nc\n", ("@@", " a", "-b", "+B"), "a  \nB\nc\n"),
        ("  a\n    b\n", ("@@", " a", "-  b", "+  B"), "  a\n    B\n"),
        (
            TWICE,
            ("@@ def g():", "-    x = 1", "+    x = 2"),
            TWICE[:38] + TWICE[38:].replace("x = 1", "x = 2"),
        ),
        (TWICE, ("@@ def g", "-    x = 1", "+    x = 2"), TWICE[:38] + TWICE[38:].replace("x = 1", "x = 2")),
        (TWICE, ("@@ def f():", "-    x = 1", "+    x = 2"), TWICE.replace("x = 1", "x = 2", 1)),
        (TWICE, ("@@ def f():", "+    y = 2"), TWICE.replace("():\n", "():\n    y = 2\n", 1)),
        ("a\nb\na\nb\n", ("@@", "-b", "+c", "*** End of File"), "a\nb\na\nc\n"),
        ("a\n", ("@@", "+b", "*** End of File"), "a\nb\n"),
        ("", ("@@", "+b"), "b\n"),
        ("a\n", ("@@", "-a"), ""),
        ("a\nb\nc\nd\n", ("@@", "-c", "+C", "@@", "-a", "+A"), "A\nb\nC\nd\n"),
        ("a\r\nb\r\n", ("@@", " a", "-b", "+c", "+d"), "a\r\nc\r\nd\r\n"),
        ("a\nb\r\nc\n", ("@@", " a", " b", "-c", "+d"), "a\nb\r\nd\n"),
        ("a\nb", ("@@", "-b", NO_NEWLINE, "+b"), "a\nb\n"),
        ("a\nb\n", ("@@", "-b", "+b", NO_NEWLINE), "a\nb"),
        (
            "class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n",
            ("@@ class B:", "@@ def f():", "-    x", "+    y"),
            "class A:\n  def f():\n    x\nclass B:\n  def f():\n    y\n",
        ),
    ],
)
def test_a_hunk_goes_where_it_fits(text: str, lines: tuple[str, ...], after: str) -> None:
    assert apply_hunks(text, _hunks(*lines)) == after


@pytest.mark.parametrize(
    ("text", "lines", "told"),
    [
        (TWICE, ("@@", "-    x = 1", "+    x = 2"), r"line 3 of the patch fits at 2 places \(lines 2, 6\)"),
        (TWICE, ("@@ no such line", "-    x = 1", "+    x = 2"), "fits at 2 places"),
        ("def f\nx\ndef f\nx\n", ("@@ def f", "-x", "+y"), "fits at 2 places"),
        ("a \nb\na\t\nb\n", ("@@", " a", "-b"), "fits at 2 places"),
        ("a\nb\n", ("@@", "-c", "+d"), r"begins with 'c' fits nowhere"),
        ("a\nb\n", ("@@", "+d"), "does not say where"),
        ("a\nb\n", ("@@ c", "+d"), "fits nowhere"),
        ("a\na\n", ("@@ a", "+d"), "fits at 2 places"),
        ("a\nb\nc\n", ("@@", " a", "-b", "@@", "-b", "+d"), "touch the same lines"),
        ("a\nb\n", ("@@", "-a", "*** End of File"), "fits nowhere"),
    ],
)
def test_a_hunk_that_does_not_fit_once_is_refused(text: str, lines: tuple[str, ...], told: str) -> None:
    with pytest.raises(NoMatch, match=told):
        apply_hunks(text, _hunks(*lines))


def _diffed(before: str, after: str, context: int) -> Iterator[str]:
    """A patch of one file, as a careful model would write it."""
    old, new = _lines(before), _lines(after)
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        yield "@@"
        for kind, a1, a2, b1, b2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[a1:a2])
            else:
                yield from (f"-{line}" for line in old[a1:a2])
                yield from (f"+{line}" for line in new[b1:b2])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n{NO_NEWLINE}"] if last else lines


_LINES = st.lists(
    st.sampled_from(["a", "b", "", " a", "\ta ", "@@", "*** End Patch", "\x0c\u2028", "\\"]), max_size=12
)
_FILES = st.tuples(_LINES, st.sampled_from(["", "\n"])).map(lambda made: "\n".join(made[0]) + made[1])
_ENDINGS = st.sampled_from(["\n", "\r\n"])


@pytest.mark.spec("A-05")
@settings(max_examples=400)
@given(_FILES, _FILES, _ENDINGS)
def test_a_patch_made_from_two_texts_makes_the_one_into_the_other(
    before: str, after: str, ending: str
) -> None:
    lines = list(_diffed(before, after, 1_000))
    if not lines:
        return
    made = apply_hunks(before.replace("\n", ending), _hunks(*"\n".join(lines).split("\n")))
    expected = ending if "\n" in before else "\n"
    assert made == after.replace("\n", expected)


@settings(max_examples=400)
@given(_FILES, _FILES)
def test_a_patch_with_little_context_is_applied_correctly_or_refused(before: str, after: str) -> None:
    lines = list(_diffed(before, after, 1))
    if not lines:
        return
    made, told = after, "places"
    try:
        made = apply_hunks(before, _hunks(*"\n".join(lines).split("\n")))
    except NoMatch as error:
        told = str(error)
    assert made == after
    assert "places" in told or "does not say where" in told


@given(st.lists(st.integers(0, 300), unique=True), st.lists(st.integers(0, 300), unique=True))
def test_a_diff_of_files_with_unique_lines_always_applies(old: list[int], new: list[int]) -> None:
    before, after = ("".join(f"<{number}>\n" for number in numbers) for numbers in (old, new))
    lines = list(_diffed(before, after, 3))
    if lines:
        assert apply_hunks(before, _hunks(*lines)) == after


def test_a_large_file_and_a_patch_of_many_hunks_take_no_time() -> None:
    before = "".join(f"{number}\n" for number in range(20_000))
    hunks = _hunks(*(line for n in range(0, 20_000, 200) for line in ("@@", f"-{n}", f"+x{n}")))
    assert apply_hunks(before, hunks).count("x") == 100
    same = "x\n" * 50_000
    with pytest.raises(NoMatch, match="fits at 1000 places"):
        apply_hunks(same, _hunks("@@", *[" x"] * 2_000, "-x"))
