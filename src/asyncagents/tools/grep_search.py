"""Lines that fit a regular expression, looked for in a process of its own, which can be ended.

It begins at `main`, which `grep` starts; a pattern that takes for ever, or all the memory, ends with it.
"""

import re
import resource
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
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
MOST_MEMORY = 4 * 1024**3
MOST_CPU_SECONDS = 120


class Search(Struct, frozen=True, kw_only=True):
    root: str
    place: Place
    pattern: str
    include: str | None = None
    rules: Effective
    """What may not be read unasked is not told in passing either."""


class Match(Struct, frozen=True):
    path: str
    number: int
    text: str


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
    lines = (match for place in places for match in _lines(files, place, pattern, looked))
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


def _lines(files: Files, place: Place, pattern: re.Pattern[str], looked: _Looked) -> Iterator[Match]:
    try:
        data = files.read(place).data
    except ToolError:
        looked.unread += 1
        return
    # Most files have none of the letters that a match must have: that is seen at once.
    if required(pattern.pattern) not in data or is_binary(data):
        return
    lines = data.decode("utf-8", "replace").removeprefix(BOM).replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if pattern.search(line):
            yield Match(whole(place.path), number, _shown(line))


def _shown(line: str) -> str:
    line = line.replace("\0", "\ufffd")
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}… (line cut)"
