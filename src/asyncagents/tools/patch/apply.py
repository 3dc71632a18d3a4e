"""Apply the hunks of a patch to a text: each at the one place where it fits, or raise `NoMatch`."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.envelope import unescape_tags
from asyncagents.tools.file.text import BOM, is_crlf
from asyncagents.tools.file.text_replace import NoMatch, check_size, indent_of, reindent
from asyncagents.tools.patch.parse import Hunk

_MOST_LINES_NAMED = 5
_MOST_MATCHES = 1_000
_MOST_WORK = 2 * 1024**3
"""Characters searched for the hunks of one file: some seconds, which cannot be cancelled."""
_LINE_WORK, _REGION_WORK = 500, 4_000
"""Cost of examining one line, and one region, in characters searched."""


class _TextLines(Struct):
    """The lines of a text without line feeds; a CRLF line keeps its carriage return."""

    lines: list[str]
    newline: bool
    bare: list[str]
    """The lines without carriage returns, for comparison."""
    joined: dict[Callable[[str], str], str]
    """The lines as one text, by the function that trimmed each line; built once for all hunks."""
    work: int = 0

    def join_lines(self, trim: Callable[[str], str]) -> str:
        if trim not in self.joined:
            self.joined[trim] = _join_lines(self.bare, trim)
        self.spend(len(self.joined[trim]))
        return self.joined[trim]

    def spend(self, work: int) -> None:
        self.work += work
        if self.work > _MOST_WORK:
            raise NoMatch(
                "The patch has too many hunks for a file of this size: make several patches of it, "
                "or write the file anew."
            )


class _Spot(Struct, frozen=True):
    """Where a hunk fits, and the indents of the hunk and of the file there."""

    start: int
    end: int
    hunk: Hunk
    indents: tuple[str, str] = ("", "")

    @property
    def growth(self) -> int:
        """Most characters that the added lines have."""
        return sum(len(line.text) + len(self.indents[1]) for line in self.hunk.lines if line.sign == "+")


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """Apply the hunks; context lines stay as they are. Raises `NoMatch` if one fits nowhere or too often."""
    mark = BOM if text.startswith(BOM) else ""
    ending = "\r" if is_crlf(text) else ""
    text_lines = _split_text(text.removeprefix(mark), ending)
    spots = sorted((_find_spot(text_lines, hunk) for hunk in hunks), key=lambda spot: (spot.start, spot.end))
    for one, other in pairwise(spots):
        if other.start < one.end or (other.start, other.end) == (one.start, one.end):
            raise NoMatch(
                f"{_hunk_name(other.hunk)} and {_hunk_name(one.hunk)} touch the same lines: make them one."
            )
    check_size(len(text) + sum(spot.growth for spot in spots))
    lines: list[str] = []
    done = 0
    for spot in spots:
        lines += text_lines.lines[done : spot.start]
        lines += _replacement_lines(text_lines, spot, ending)
        done = spot.end
    lines += text_lines.lines[done:]
    return mark + _build_text(lines, _ends_with_newline(text_lines, hunks), ending)


def _split_text(text: str, ending: str) -> _TextLines:
    lines = text.split("\n")
    newline = not lines[-1]
    if newline:
        lines.pop()
    bare = [line.removesuffix("\r") for line in lines]
    if not newline:
        lines[-1] += ending  # this line may not be the last one afterwards
    return _TextLines(lines, newline, bare, {})


def _build_text(lines: list[str], newline: bool, ending: str) -> str:
    if not lines:
        return ""
    text = "\n".join(lines)
    return f"{text}\n" if newline else text.removesuffix(ending)


def _ends_with_newline(text_lines: _TextLines, hunks: Sequence[Hunk]) -> bool:
    flags = [hunk.newline for hunk in hunks if hunk.newline is not None]
    return flags[-1] if flags else text_lines.newline


def _replacement_lines(text_lines: _TextLines, spot: _Spot, ending: str) -> Iterator[str]:
    at = spot.start
    for line in spot.hunk.lines:
        if line.sign == "+":
            yield reindent(line.text, *spot.indents) + ending
            continue
        if line.sign == " ":
            yield text_lines.lines[at]
        at += 1


def _find_spot(text_lines: _TextLines, hunk: Hunk) -> _Spot:
    if not hunk.old_lines:
        return _find_insertion(text_lines, hunk)
    spot = _find_fit(text_lines, hunk) or _find_fit(text_lines, _open_tags(hunk))
    if spot is None:
        raise NoMatch(_no_match_text(hunk))
    return spot


def _open_tags(hunk: Hunk) -> Hunk:
    """Undo the enclosing of our tags: the model reads enclosed tags, and copies them."""
    return replace(hunk, lines=tuple(replace(line, text=unescape_tags(line.text)) for line in hunk.lines))


def _find_fit(text_lines: _TextLines, hunk: Hunk) -> _Spot | None:
    for trim in (str, str.rstrip, str.strip):
        starts = _find_lines(text_lines.join_lines(trim), _join_lines(hunk.old_lines, trim))
        if hunk.at_end:
            starts = [start for start in starts if start + len(hunk.old_lines) == len(text_lines.lines)]
        if len(starts) > 1 and hunk.headings:
            starts = _first_below_headings(text_lines, hunk, starts)
        if len(starts) == 1:
            return _build_spot(text_lines, hunk, starts[0])
        if starts:
            raise NoMatch(_many_matches_text(hunk, starts))
    return None


def _build_spot(text_lines: _TextLines, hunk: Hunk, start: int) -> _Spot:
    end = start + len(hunk.old_lines)
    was, now = indent_of("\n".join(hunk.old_lines)), indent_of("\n".join(text_lines.bare[start:end]))
    return _Spot(start, end, hunk, (was, now))


def _find_insertion(text_lines: _TextLines, hunk: Hunk) -> _Spot:
    """Find the place of a hunk that only adds lines: the end of the file, or below its one heading line."""
    if hunk.at_end or not text_lines.lines:
        return _Spot(len(text_lines.lines), len(text_lines.lines), hunk)
    if not hunk.headings:
        raise NoMatch(
            f"{_hunk_name(hunk)} only adds lines and does not say where: add lines around them, "
            "or '*** End of File' after them."
        )
    regions = _find_regions(text_lines, hunk.headings)
    if len(regions) != 1:
        raise NoMatch(
            _many_matches_text(hunk, [start for start, _ in regions]) if regions else _no_match_text(hunk)
        )
    start = regions[0][0] + 1
    return _Spot(start, start, hunk)


def _join_lines(lines: list[str], trim: Callable[[str], str]) -> str:
    return "\n" + "\n".join(map(trim, lines)) + "\n"


def _find_lines(text: str, sought: str) -> list[int]:
    """Return the line numbers at which the lines of `sought` follow."""
    found: list[int] = []
    at = line = counted = 0
    while len(found) < _MOST_MATCHES and (at := text.find(sought, at)) >= 0:
        line += text.count("\n", counted, at)
        counted = at
        found.append(line)
        at += 1
    return found


def _first_below_headings(text_lines: _TextLines, hunk: Hunk, starts: list[int]) -> list[int]:
    """Return the first start in each region of the headings; all starts if no region has one."""
    found: list[int] = []
    for start, end in _find_regions(text_lines, hunk.headings):  # in order, as the places are
        first = bisect_left(starts, start)
        if first < len(starts) and starts[first] < end:
            found.append(starts[first])
    return found or starts


def _find_regions(text_lines: _TextLines, headings: Sequence[str]) -> list[tuple[int, int]]:
    """Return the regions that begin at a line of the last heading, nested in those of the headings before."""
    regions = [(0, len(text_lines.bare))]
    for heading in headings:
        inner: list[tuple[int, int]] = []
        for start, end in regions:
            text_lines.spend((end - start) * _LINE_WORK + _REGION_WORK)
            at = _lines_with_heading(text_lines.bare, heading, start, end)
            inner += zip(at, [*at[1:], end], strict=False)  # no line, no region
        regions = inner
    return regions


def _lines_with_heading(lines: list[str], heading: str, start: int, end: int) -> list[int]:
    stripped = [(at, lines[at].strip()) for at in range(start, end)]
    same = [at for at, line in stripped if line == heading]
    return same or [at for at, line in stripped if line.startswith(heading)]


def _hunk_name(hunk: Hunk) -> str:
    return f"The hunk in line {hunk.at} of the patch"


def _many_matches_text(hunk: Hunk, starts: list[int]) -> str:
    shown = ", ".join(str(start + 1) for start in starts[:_MOST_LINES_NAMED])
    more = ", …" if len(starts) > _MOST_LINES_NAMED else ""
    return (
        f"{_hunk_name(hunk)} fits at {len(starts)} places (lines {shown}{more}): add neighbouring lines, "
        "or name the function or class above it after '@@'."
    )


def _no_match_text(hunk: Hunk) -> str:
    first = next((line for line in hunk.old_lines if line.strip()), "")
    about = f" that begins with {first[:80]!r}" if first else ""
    return (
        f"{_hunk_name(hunk)}{about} fits nowhere in the file: read the file again and copy its lines "
        "exactly, without line numbers."
    )
