"""Parse the text of a patch over several files, without reading any file."""

import re
from typing import TypeAlias

from msgspec import Struct

from asyncagents.errors import ToolError
from asyncagents.tools.file.text import encode

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE, DELETE = "*** Add File:", "*** Update File:", "*** Delete File:"
MOVE, END_OF_FILE = "*** Move to:", "*** End of File"
NO_NEWLINE = "\\ No newline at end of file"
_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@ ?")
_MOST_SHOWN = 80
MOST_FILES = 500
"""Each file is written to the disk, which cannot be cancelled."""


class PatchLine(Struct, frozen=True):
    sign: str
    """A blank: context; `-`: removed; `+`: added."""
    text: str


class Hunk(Struct, frozen=True, kw_only=True):
    at: int
    """The hunk's line in the patch, for errors."""
    headings: tuple[str, ...] = ()
    """Lines of the file above the hunk, outermost first."""
    lines: tuple[PatchLine, ...] = ()
    at_end: bool = False
    newline: bool | None = None
    """Whether the file ends with a line feed afterwards; None: as before."""

    @property
    def old_lines(self) -> list[str]:
        return [line.text for line in self.lines if line.sign != "+"]


class AddFile(Struct, frozen=True, tag="add"):
    path: str
    content: str


class UpdateFile(Struct, frozen=True, tag="update"):
    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


class DeleteFile(Struct, frozen=True, tag="delete"):
    path: str


Section: TypeAlias = AddFile | UpdateFile | DeleteFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """Parse a patch. Raises `ToolError` with the wrong line and what was expected there."""
    encode(text, "patchText")
    reader = _PatchReader(text)
    reader.skip_blank()
    reader.expect(BEGIN)
    sections: list[Section] = []
    while not reader.take_marker(END):
        sections.append(_parse_section(reader))
        if len(sections) > MOST_FILES:
            raise ToolError(f"The patch names more than {MOST_FILES} files: make several patches of it.")
    reader.skip_blank()
    if reader.line is not None:
        raise reader.error(f"nothing after {END!r}")
    if not sections:
        raise ToolError(f"The patch changes nothing: name a file between {BEGIN!r} and {END!r}.")
    return tuple(sections)


class _PatchReader:
    """Reads the lines in order; `line` is None after the last."""

    def __init__(self, text: str) -> None:
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._at = 0

    @property
    def number(self) -> int:
        return self._at + 1

    @property
    def line(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def advance(self) -> None:
        self._at += 1

    def skip_blank(self) -> None:
        while self.line is not None and not self.line.strip():
            self.advance()

    def take_marker(self, marker: str) -> bool:
        if self.line is None or self.line.strip() != marker:
            return False
        self.advance()
        return True

    def take_value(self, marker: str) -> str | None:
        """Return the value after the marker and advance; None if the line does not begin with the marker."""
        if self.line is None or not self.line.startswith(marker):
            return None
        value = self.line.removeprefix(marker).strip()
        if not value:
            raise self.error(f"a path after {marker!r}")
        self.advance()
        return value

    def expect(self, marker: str) -> None:
        if not self.take_marker(marker):
            raise self.error(repr(marker))

    def error(self, expected: str) -> ToolError:
        found = "the end of the patch" if self.line is None else repr(self.line[:_MOST_SHOWN])
        return ToolError(f"Line {self.number} of the patch is {found}; expected {expected}.")


def _parse_section(reader: _PatchReader) -> Section:
    reader.skip_blank()
    if (path := reader.take_value(ADD)) is not None:
        return AddFile(path, _parse_content(reader))
    if (path := reader.take_value(DELETE)) is not None:
        return DeleteFile(path)
    if (path := reader.take_value(UPDATE)) is not None:
        return _parse_update(reader, path)
    raise reader.error(f"{ADD!r}, {UPDATE!r} or {DELETE!r} with a path, or {END!r}")


def _parse_content(reader: _PatchReader) -> str:
    lines: list[str] = []
    newline = True
    while reader.line is not None and not reader.line.startswith("*** "):
        if reader.line.startswith("+") and newline:
            lines.append(reader.line[1:] + "\n")
        elif reader.line == NO_NEWLINE and lines:
            newline = False
        elif reader.line.strip():
            raise reader.error("a line of the new file, which begins with '+'")
        reader.advance()
    content = "".join(lines)
    return content if newline else content.removesuffix("\n")


def _parse_update(reader: _PatchReader, path: str) -> UpdateFile:
    move_to = reader.take_value(MOVE)
    hunks: list[Hunk] = []
    while reader.line is not None and not _ends_section(reader.line):
        if not reader.line.strip() and _rest_is_blank(reader):
            break
        hunks.append(_parse_hunk(reader))
    if not hunks and move_to is None:
        raise reader.error(f"a hunk that begins with '@@', or {MOVE!r}, since {path} is to be updated")
    return UpdateFile(path, tuple(hunks), move_to)


def _rest_is_blank(reader: _PatchReader) -> bool:
    """Skip blank lines; return whether the section ends after them."""
    reader.skip_blank()
    return reader.line is None or _ends_section(reader.line)


def _ends_section(line: str) -> bool:
    return line.strip() == END or line.startswith((ADD, UPDATE, DELETE))


def _parse_hunk(reader: _PatchReader) -> Hunk:
    at = reader.number
    headings = _parse_headings(reader)
    lines, newline = _parse_lines(reader)
    at_end = reader.take_marker(END_OF_FILE)
    if not at_end:  # empty lines before the next hunk or file are not part of it
        while lines and not lines[-1].sign:
            lines.pop()
    if newline is None and not any(line.sign in {"+", "-"} for line in lines):
        raise reader.error(f"a line to add or remove in the hunk that begins in line {at}")
    hunk_lines = tuple(line if line.sign else PatchLine(" ", "") for line in lines)
    return Hunk(at=at, headings=headings, lines=hunk_lines, at_end=at_end, newline=newline)


def _parse_lines(reader: _PatchReader) -> tuple[list[PatchLine], bool | None]:
    """Parse the lines of a hunk; an empty line has lost its sign."""
    lines: list[PatchLine] = []
    newline: bool | None = None
    while (line := reader.line) is not None and not line.startswith(("@@", "*** ")):
        if line == NO_NEWLINE and lines:
            newline = newline is not False and lines[-1].sign == "-"
        elif line[:1] in {"", " ", "+", "-"}:
            lines.append(PatchLine(line[:1], line[1:]))
        else:
            raise reader.error("a line that begins with ' ', '+' or '-'; put a blank before a context line")
        reader.advance()
    return lines, newline


def _parse_headings(reader: _PatchReader) -> tuple[str, ...]:
    found: list[str] = []
    while (line := reader.line) is not None and line.startswith("@@"):
        text = _NUMBERS.sub("", line[2:].strip() + " ", count=1).strip()
        found += [text] if text and text != "@@" else []
        reader.advance()
    return tuple(found)
