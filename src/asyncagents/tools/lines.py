"""The lines of a large file, found a piece at a time: one long step would hold up all other threads."""

from collections.abc import Iterator

PIECE = 32 * 1024
_LONGEST_CHARACTER = 4


def count_lines(data: bytes) -> int:
    """A last line that does not end counts, too."""
    ends = sum(data.count(b"\n", at, at + PIECE) for at in range(0, len(data), PIECE))
    return ends + (not data.endswith(b"\n")) if data else 0


def lines_from(data: bytes, first: int, most: int) -> Iterator[str]:
    """From the line with this number on, which there is; of a longer one more than `most` characters."""
    start = _start_of(data, first)
    while start < len(data):
        found = data.find(b"\n", start)
        end = found if found >= 0 else len(data)
        room = (most + 2) * _LONGEST_CHARACTER
        yield data[start : min(end, start + room)].decode("utf-8", "replace")
        start = end + 1


def _start_of(data: bytes, number: int) -> int:
    """Where a line begins: in the piece with the end of the line before it."""
    before, at = number - 1, 0
    if not before:
        return 0
    while (ends := data.count(b"\n", at, at + PIECE)) < before:
        before -= ends
        at += PIECE
    for _ in range(before):
        at = data.index(b"\n", at) + 1
    return at
