"""Make a unified diff of two texts, in bounded time and size."""

from collections.abc import Iterator
from difflib import SequenceMatcher

from asyncagents.domain.text import replace_surrogates
from asyncagents.tools.file.text import is_large

MOST_CHARS = 50_000
_CONTEXT = 3
_MOST_COMPARED = 3_000


def unified_diff(name: str, before: str, after: str) -> str:
    """Return the diff of two versions of a file; empty if they are equal."""
    if before == after:
        return ""
    if is_large(before) or is_large(after):
        return replace_surrogates(
            f"--- {name}\n+++ {name}\n(the files are too large for their difference to be shown)\n"
        )
    lines = [f"--- {name}\n", f"+++ {name}\n", *_hunks(_lines(before), _lines(after))]
    text = replace_surrogates("".join(lines))
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}\n(the rest of the diff is not shown)\n"


def _lines(text: str) -> list[str]:
    """Split at line feeds alone: other separators are part of a line to diff and patch."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, f"{last}\n\\ No newline at end of file\n"] if last else lines


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Compare only the lines between the first and the last difference: most of a file is the same."""
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    groups = _groups(old[head : len(old) - tail], new[head : len(new) - tail])
    lead, trail = min(head, _CONTEXT), min(tail, _CONTEXT)
    groups[0].insert(0, ("equal", -lead, 0, -lead, 0))
    _, _, a2, _, b2 = groups[-1][-1]
    groups[-1].append(("equal", a2, a2 + trail, b2, b2 + trail))
    for group in groups:
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(head + a1, head + a2)} +{_range(head + b1, head + b2)} @@\n"
        for kind, a1, a2, b1, b2 in group:
            same = kind == "equal"
            yield from (f"{' ' if same else '-'}{line}" for line in old[head + a1 : head + a2])
            yield from (f"+{line}" for line in new[head + b1 : head + b2] if not same)


def _groups(left: list[str], right: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    """Group changes with their context lines into hunks; many lines are one: comparing is quadratic."""
    if max(len(left), len(right)) > _MOST_COMPARED:
        return [[("replace", 0, len(left), 0, len(right))]]
    return list(SequenceMatcher(None, left, right).get_grouped_opcodes(_CONTEXT))


def _common_prefix(left: list[str], right: list[str]) -> int:
    """Return how many lines are equal from the start."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _range(start: int, end: int) -> str:
    """Format a range of a hunk header; an empty range is named by the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"
