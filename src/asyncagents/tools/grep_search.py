"""Lines that fit a regular expression, looked for in a process of its own, which can be ended.

It begins at `main`, which `grep` starts; a pattern that takes for ever, or all the memory, ends with it.
"""

import re
import resource
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.permission import Effective
from asyncagents.domain.text import whole
from asyncagents.errors import ToolError
from asyncagents.tools.files import Files
from asyncagents.tools.glob_pattern import fitting
from asyncagents.tools.grep_filter import required, worth_a_look
from asyncagents.tools.place import Outside, Place
from asyncagents.tools.text import BOM, is_binary
from asyncagents.tools.walk import walk

MOST_MATCHES = 100
MOST_LINE = 2_000
MOST_HITS = 20
"""Of one line."""
MOST_MEMORY = 4 * 1024**3
MOST_CPU_SECONDS = 120


class Search(Struct, frozen=True, kw_only=True):
    root: str
    place: Place
    pattern: str
    include: str | None = None
    rules: Effective
    """What may not be read unasked is not told in passing either."""
    hits: bool = False
    """Whether it is told where in its file a line is, and where in the line the matches are."""


class Hit(Struct, frozen=True):
    """In bytes of the line."""

    text: str
    start: int
    end: int


class Match(Struct, frozen=True):
    path: str
    number: int
    text: str
    offset: int = 0
    """In bytes of the file."""
    hits: tuple[Hit, ...] = ()


class Searched(Struct, frozen=True, kw_only=True):
    matches: tuple[Match, ...] = ()
    more: bool = False
    """There are other matches."""
    cut: bool = False
    """There were more files than could be looked at."""
    unread: int = 0
    """So many files could not be opened, or are too large."""
    secret: int = 0
    """So many files may not be read unasked, and were not searched."""
    error: str = ""


class _Looked(Struct):
    """What was passed over."""

    unread: int = 0
    secret: int = 0
    cut: bool = False


class _Look(Struct, frozen=True):
    pattern: re.Pattern[str]
    looked: _Looked
    hits: bool


def main() -> None:
    """Answers on standard output what the last argument asks, both JSON; the latter in hexadecimal digits."""
    for limit, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, MOST_CPU_SECONDS)):
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))
    search = msgspec.json.decode(bytes.fromhex(sys.argv[-1]), type=Search)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(searched(search)) + b"\n")


def searched(search: Search) -> Searched:
    try:
        return _searched(search, _compiled(search.pattern))
    except ToolError as error:
        return Searched(error=whole(str(error)))
    except MemoryError:
        return Searched(error="The pattern needs too much memory; write a simpler one.")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python would read otherwise
            return re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise ToolError(
            f"The pattern is not a valid regular expression: {error.msg}{where}; "
            "put a backslash before a character that is meant as it is."
        ) from error
    except (RecursionError, OverflowError) as error:
        raise ToolError("The pattern is too complex; write a simpler one.") from error


def _searched(search: Search, pattern: re.Pattern[str]) -> Searched:
    files = Files(Path(search.root))
    looked = _Looked()
    places = _places(files, search, looked)
    look = _Look(pattern, looked, search.hits)
    lines = (match for place in places for match in _lines(files, place, look))
    matches = tuple(islice(lines, MOST_MATCHES + 1))
    return Searched(
        matches=matches[:MOST_MATCHES],
        more=len(matches) > MOST_MATCHES,
        cut=looked.cut,
        unread=looked.unread,
        secret=looked.secret,
    )


def _places(files: Files, search: Search, looked: _Looked) -> list[Place]:
    """The files to look into, the last changed first; a file that is named itself is looked into anyway."""
    top = search.place
    if not files.is_folder(top):
        files.read(top)  # an error about the file itself is the answer
        return [top]
    walked = walk(files, top, fitting(search.include or "**", top.parts))
    places = [replace(top, parts=each.parts) for each in walked.files]
    found = {place.name: place for place in places if search.rules.evaluate("read", place.name) == "allow"}
    looked.secret = len(places) - len(found)
    looked.cut = walked.cut
    if isinstance(top, Outside):
        return list(found.values())
    return [found[name] for name in worth_a_look(search.root, tuple(found), required(search.pattern))]


def _lines(files: Files, place: Place, look: _Look) -> Iterator[Match]:
    pattern = look.pattern
    try:
        data = files.read(place).data
    except ToolError:
        look.looked.unread += 1
        return
    # Most files have none of the letters that a match must have: that is seen at once.
    if required(pattern.pattern) not in data or is_binary(data):
        return
    lines = data.decode("utf-8", "replace").removeprefix(BOM).replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    starts = _starts(data) if look.hits else ()
    for number, line in enumerate(lines, 1):
        if pattern.search(line):
            found = Match(whole(place.path), number, _shown(line))
            yield replace(found, offset=starts[number - 1], hits=_hits(pattern, line)) if starts else found


def _starts(data: bytes) -> tuple[int, ...]:
    """Where each line of a file begins."""
    return tuple(
        accumulate((len(line) for line in data.split(b"\n")), lambda at, size: at + size + 1, initial=0)
    )


def _hits(pattern: re.Pattern[str], line: str) -> tuple[Hit, ...]:
    found = islice(pattern.finditer(line[:MOST_LINE]), MOST_HITS)
    return tuple(Hit(each[0], _bytes(line[: each.start()]), _bytes(line[: each.end()])) for each in found)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _shown(line: str) -> str:
    line = line.replace("\0", "\ufffd")
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}… (line cut)"
