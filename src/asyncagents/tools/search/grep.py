"""Search files for lines that match a regular expression.

Runs in a separate process (`search_worker`), which bounds the time and memory that a pattern may take.
"""

import re
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.guarded import GuardedPlaces
from asyncagents.domain.agent.permission import LineageRules
from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.folder import MOST_SEARCHED
from asyncagents.tools.file.path import OutsidePath, ResolvedPath
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.search.glob_match import glob_filter
from asyncagents.tools.search.grep_lines import MOST_MATCHES, Expression, FileMatches, LineSearch, Match
from asyncagents.tools.search.grep_prefilter import prefilter_files
from asyncagents.tools.search.parallel import work_in_order
from asyncagents.tools.search.walk import walk

FIRST_PIECE, LARGEST_PIECE = 200, 1_600
"""Files in one batch."""


class GrepSearch(Struct, frozen=True, kw_only=True, tag="grep"):
    root: str
    place: ResolvedPath
    pattern: str
    include: str | None = None
    rules: LineageRules
    """Files that may not be read unasked are not searched."""
    guarded: GuardedPlaces = GuardedPlaces()
    """Sealed and secret places are skipped."""
    hits: bool = False
    """Whether to report offsets of lines and of the hits in them."""


class GrepResult(Struct, frozen=True, kw_only=True):
    matches: tuple[Match, ...] = ()
    more: bool = False
    """There are more matches."""
    cut: bool = False
    """There were more files than the limit."""
    unread: int = 0
    """Number of files that could not be opened, or are too large."""
    secret: int = 0
    """Number of files that may not be read unasked, and were not searched."""
    error: str = ""


_Paths: TypeAlias = Sequence[tuple[str, ...]]


class _ChosenFiles(Struct, frozen=True, kw_only=True):
    """The files to search, the last modified first."""

    paths: _Paths
    secret: int = 0
    cut: bool = False


def search_lines(search: GrepSearch, workers: int = 1) -> GrepResult:
    """Run the search; errors are part of the result. With more than one worker, this process must have one
    thread."""
    try:
        return _search_files(search, Expression(_compile_pattern(search.pattern), hits=search.hits), workers)
    except ToolError as error:
        return GrepResult(error=replace_surrogates(str(error)))
    except MemoryError:
        return GrepResult(error="The pattern needs too much memory; write a simpler one.")


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of patterns that a later Python may read differently
            return re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise ToolError(
            f"The pattern is not a valid regular expression: {error.msg}{where}; "
            "put a backslash before a character that is meant as it is."
        ) from error
    except (RecursionError, OverflowError) as error:
        raise ToolError("The pattern is too complex; write a simpler one.") from error


def _search_files(search: GrepSearch, expression: Expression, workers: int) -> GrepResult:
    files = Files(Path(search.root), guard=PlaceGuard(search.guarded))
    chosen = _choose_files(files, search, expression)
    matches: list[Match] = []
    unread = 0
    with closing(
        _search_in_pieces(LineSearch(files, search.place, expression), chosen.paths, workers)
    ) as found:
        for each in found:
            matches += each.matches
            unread += each.unread
            if len(matches) > MOST_MATCHES:
                break
    return GrepResult(
        matches=tuple(matches[:MOST_MATCHES]),
        more=len(matches) > MOST_MATCHES,
        cut=chosen.cut,
        unread=unread,
        secret=chosen.secret,
    )


def _search_in_pieces(search: LineSearch, paths: _Paths, workers: int) -> Generator[FileMatches, None, None]:
    """Search the files in batches, in parallel; yield results in the order of the paths."""

    def search_piece(piece: _Paths) -> bytes:
        return msgspec.json.encode(search.search_files(piece))

    with closing(work_in_order(list(_pieces(paths)), search_piece, workers)) as pieces:
        for done in pieces:
            yield from msgspec.json.decode(done, type=list[FileMatches])


def _pieces(paths: _Paths) -> Iterator[_Paths]:
    """Yield batches of files, small ones first: a frequent match is found in a few files."""
    start, size = 0, FIRST_PIECE
    while start < len(paths):
        yield paths[start : start + size]
        start, size = start + size, min(2 * size, LARGEST_PIECE)


def _choose_files(files: Files, search: GrepSearch, expression: Expression) -> _ChosenFiles:
    """Choose the files to search; a file that is named itself is always searched."""
    top = search.place
    if not files.is_folder(top):
        files.read(top, MOST_SEARCHED)  # raises the error about the file itself
        return _ChosenFiles(paths=(top.parts,))
    wanted = glob_filter(search.include, top.parts) if search.include is not None else _accept_all
    walked = walk(files, top, wanted)
    action = search.rules.for_permission("read")
    named = {replace(top, parts=each.parts).name: each.parts for each in walked.files}
    secret = tuple(f"{path}/" for path in files.guard.secrets_around(top.path))
    allowed = {
        name: parts
        for name, parts in named.items()
        if action(name) == "allow" and not f"{replace(top, parts=parts).path}/".startswith(secret)
    }
    names = tuple(allowed)
    if not isinstance(top, OutsidePath):
        names = tuple(prefilter_files(search.root, names, expression.literals))
    return _ChosenFiles(
        paths=tuple(allowed[name] for name in names), secret=len(named) - len(allowed), cut=walked.cut
    )


def _accept_all(parts: tuple[str, ...]) -> bool:
    return True
