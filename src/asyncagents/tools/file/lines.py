"""Find lines of a large file piece by piece: one long operation would block all other threads."""

from collections.abc import Iterator

PIECE = 32 * 1024
_LONGEST_CHARACTER = 4


def count_lines(data: bytes) -> int:
    """Count the lines, including an unterminated last one."""
    ends = sum(data.count(b"\n", at, at + PIECE) for at in range(0, len(data), PIECE))
    return ends + (not data.endswith(b"\n")) if data else 0


def lines_from(data: bytes, first: int, most: int) -> Iterator[str]:
    """Yield the lines from number `first` on, which must exist; long ones are cut beyond `most` letters."""
    start = _start_of(data, first)
    while start < len(data):
        found = data.find(b"\n", start)
        end = found if found >= 0 else len(data)
        room = (most + 2) * _LONGEST_CHARACTER
        yield data[start : min(end, start + room)].decode("utf-8", "replace")
        start = end + 1


def _start_of(data: bytes, number: int) -> int:
    """Return the index where a line begins; searches only the piece that ends the line before it."""
    before, at = number - 1, 0
    if not before:
        return 0
    while (ends := data.count(b"\n", at, at + PIECE)) < before:
        before -= ends
        at += PIECE
    for _ in range(before):
        at = data.index(b"\n", at) + 1
    return at
