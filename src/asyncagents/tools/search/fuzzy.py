"""Fuzzy search of paths: the letters of a query in order, the closer together the better."""

import heapq
from collections.abc import Iterable

MOST_SCATTERED = 64
"""Longest query whose letters may be scattered, since each letter is searched in every path."""
_WHOLE_NAME, _STARTS_NAME, _IN_NAME, _IN_PATH, _SCATTERED = range(5)


def best_matches(query: str, paths: Iterable[str], limit: int) -> list[str]:
    """Return the best matches, of equals the shorter first; without a query, the first paths."""
    letters = query.lower().strip()
    if not letters:
        return [path for path, _ in zip(paths, range(limit), strict=False)]
    ranked = ((rank, len(path), path) for path in paths if (rank := _rank(letters, path)) is not None)
    return [path for _, _, path in heapq.nsmallest(limit, ranked)]


def _rank(letters: str, path: str) -> tuple[int, int] | None:
    """Return the rank of a path, smaller is better; None if it does not match."""
    lowered = path.lower()
    name = lowered.rstrip("/").rpartition("/")[2]
    if name == letters or name.partition(".")[0] == letters:
        return _WHOLE_NAME, 0
    if name.startswith(letters):
        return _STARTS_NAME, 0
    if letters in name:
        return _IN_NAME, name.index(letters)
    if letters in lowered:
        return _IN_PATH, len(lowered) - lowered.rindex(letters)
    spread = _spread(letters, lowered) if len(letters) <= MOST_SCATTERED else None
    return None if spread is None else (_SCATTERED, spread)


def _spread(letters: str, text: str) -> int | None:
    """Count the characters between the letters, matched from the end of the text; None if one is missing."""
    place = end = len(text)
    for letter in reversed(letters):
        place = text.rfind(letter, 0, place)
        if place < 0:
            return None
        end = min(end, place)
    return len(text) - end - len(letters)
