"""Find lines of files that match a regular expression; each folder is opened once, links are not followed."""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.folder import MOST_SEARCHED, FolderHandle
from asyncagents.tools.file.path import ResolvedPath
from asyncagents.tools.file.text import BOM, is_binary
from asyncagents.tools.search.required_literals import find_literals

MOST_MATCHES = 100
MOST_LINE = 2_000
MOST_HITS = 20
"""Most hits reported of one line."""
_ODD_SPACES = (b"\x1c", b"\x1d", b"\x1e", b"\x1f")
"""Characters that `\\s` matches in a str pattern, but not in a bytes pattern."""


class Hit(Struct, frozen=True):
    """One match in a line; `start` and `end` in bytes of the line."""

    text: str
    start: int
    end: int


class Match(Struct, frozen=True):
    path: str
    number: int
    text: str
    offset: int = 0
    """Start of the line, in bytes of the file."""
    hits: tuple[Hit, ...] = ()


class FileMatches(Struct, frozen=True):
    """The matches of one file, or that it could not be read."""

    order: int
    """Index of the file in its batch."""
    matches: tuple[Match, ...] = ()
    unread: bool = False


class Expression:
    """A compiled pattern with its required literals."""

    def __init__(self, pattern: re.Pattern[str], *, hits: bool) -> None:
        self.pattern = pattern
        self.literals = find_literals(pattern.pattern)
        self._hits = hits

    @cached_property
    def _bytes_pattern(self) -> re.Pattern[bytes] | None:
        """The pattern for ASCII bytes: several times as fast, since nothing is decoded."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return re.compile(self.pattern.pattern.encode("ascii"))
        except (UnicodeEncodeError, re.error, ValueError):
            return None  # the pattern has something that a bytes pattern cannot have

    def find_matches(self, data: bytes, path: str) -> Iterator[Match]:
        if not self._may_match(data) or is_binary(data):
            return
        lines = data.decode("utf-8", "replace").removeprefix(BOM).replace("\r\n", "\n").split("\n")
        if not lines[-1]:
            lines.pop()
        starts = _line_starts(data) if self._hits else ()
        for number, line in enumerate(lines, 1):
            if self.pattern.search(line):
                found = Match(path, number, _cut_line(line))
                yield (
                    replace(found, offset=starts[number - 1], hits=_find_hits(self.pattern, line))
                    if starts
                    else found
                )

    def _may_match(self, data: bytes) -> bool:
        """Return False if no line can match: most files lack the required literals."""
        literals = self.literals
        if not literals.may_match(data):
            return False
        quick = (
            self._bytes_pattern if data.isascii() and not any(each in data for each in _ODD_SPACES) else None
        )
        if quick is None:
            return True
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        if literals.any_of and not literals.any_case:
            lines = [line for line in lines if any(each in line for each in literals.any_of)]
        return any(map(quick.search, lines))


class LineSearch:
    """A search of files below one path."""

    def __init__(self, files: Files, top: ResolvedPath, expression: Expression) -> None:
        self._files = files
        self._top = top
        self._expression = expression

    def search_files(self, paths: Sequence[tuple[str, ...]]) -> list[FileMatches]:
        """Search the files; return results in the order of the paths, without files that do not match."""
        folders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for order, parts in enumerate(paths):
            folders[parts[:-1]].append(order)
        found: list[FileMatches] = []
        for parts, orders in folders.items():
            try:
                with self._files.open_folder(replace(self._top, parts=parts)) as folder:
                    found += (self._search_file(folder, paths[each], each) for each in orders)
            except ToolError:
                found += (FileMatches(each, unread=True) for each in orders)
        return sorted((each for each in found if each.matches or each.unread), key=lambda each: each.order)

    def _search_file(self, folder: FolderHandle, parts: tuple[str, ...], order: int) -> FileMatches:
        try:
            data, _ = folder.read(parts[-1], MOST_SEARCHED)
        except OSError:
            return FileMatches(order, unread=True)
        if not self._expression.literals.may_match(data):
            return FileMatches(order)
        path = replace_surrogates(replace(self._top, parts=parts).path)
        return FileMatches(order, tuple(islice(self._expression.find_matches(data, path), MOST_MATCHES + 1)))


def _line_starts(data: bytes) -> tuple[int, ...]:
    """Return the byte offset of each line."""
    return tuple(
        accumulate((len(line) for line in data.split(b"\n")), lambda at, size: at + size + 1, initial=0)
    )


def _find_hits(pattern: re.Pattern[str], line: str) -> tuple[Hit, ...]:
    found = islice(pattern.finditer(line[:MOST_LINE]), MOST_HITS)
    return tuple(
        Hit(each[0], _byte_length(line[: each.start()]), _byte_length(line[: each.end()])) for each in found
    )


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _cut_line(line: str) -> str:
    line = line.replace("\0", "\ufffd")
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}… (line cut)"
