"""Names that are nearly what somebody types: its letters in their order, the closer together the better."""

import heapq
from collections.abc import Iterable

MOST_SCATTERED = 64
"""Letters; more of them must stand together, for each is looked for in every path."""
_WHOLE_NAME, _STARTS_NAME, _IN_NAME, _IN_PATH, _SCATTERED = range(5)


def best(query: str, paths: Iterable[str], limit: int) -> list[str]:
    """The best first; of equals the shorter. Without a query, the first that come."""
    letters = query.lower().strip()
    if not letters:
        return [path for path, _ in zip(paths, range(limit), strict=False)]
    ranked = ((rank, len(path), path) for path in paths if (rank := _rank(letters, path)) is not None)
    return [path for _, _, path in heapq.nsmallest(limit, ranked)]


def _rank(letters: str, path: str) -> tuple[int, int] | None:
    """Smaller is better; None: it does not fit."""
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
    """How many characters lie between them, when each is taken where it comes first from the end."""
    place = end = len(text)
    for letter in reversed(letters):
        place = text.rfind(letter, 0, place)
        if place < 0:
            return None
        end = min(end, place)
    return len(text) - end - len(letters)
