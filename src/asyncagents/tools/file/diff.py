"""Make a unified diff of two texts, in bounded time and size."""

from collections.abc import Iterator
from difflib import SequenceMatcher

from msgspec import Struct

from asyncagents.domain.text import replace_surrogates
from asyncagents.tools.file.text import is_large

MOST_CHARS = 50_000
_CONTEXT = 3
_MOST_COMPARED = 3_000


class _Step(Struct, frozen=True):
    """Lines a1 to a2 of the old text become b1 to b2 of the new one."""

    same: bool
    a1: int
    a2: int
    b1: int
    b2: int

    def first_lines(self) -> "_Step":
        return _Step(
            True, self.a1, min(self.a2, self.a1 + _CONTEXT), self.b1, min(self.b2, self.b1 + _CONTEXT)
        )

    def last_lines(self) -> "_Step":
        return _Step(
            True, max(self.a1, self.a2 - _CONTEXT), self.a2, max(self.b1, self.b2 - _CONTEXT), self.b2
        )


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
    for group in _groups(_steps(old, new)):
        first, last = group[0], group[-1]
        left, right = _range(first.a1, last.a2), _range(first.b1, last.b2)
        yield f"@@ -{left} +{right} @@\n"
        for step in group:
            if step.same:
                yield from (f" {line}" for line in old[step.a1 : step.a2])
            else:
                yield from (f"-{line}" for line in old[step.a1 : step.a2])
                yield from (f"+{line}" for line in new[step.b1 : step.b2])


def _steps(old: list[str], new: list[str]) -> list[_Step]:
    """Compare only the lines between the first and the last difference: most of a file is the same."""
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    between = [_Step(False, head, len(old) - tail, head, len(new) - tail)]
    if max(len(left), len(right)) <= _MOST_COMPARED:
        found = SequenceMatcher(None, left, right).get_opcodes()
        between = [_Step(kind == "equal", *(head + each for each in at)) for kind, *at in found]
    before = [_Step(True, 0, head, 0, head)]
    after = [_Step(True, len(old) - tail, len(old), len(new) - tail, len(new))]
    return before + between + after


def _groups(steps: list[_Step]) -> Iterator[list[_Step]]:
    """Group changes with their context lines into hunks; near changes share one."""
    group = [steps[0].last_lines()]
    for step in steps[1:-1]:
        if step.same and step.a2 - step.a1 > 2 * _CONTEXT:
            yield [*group, step.first_lines()]
            group = [step.last_lines()]
        else:
            group.append(step)
    yield [*group, steps[-1].first_lines()]


def _common_prefix(left: list[str], right: list[str]) -> int:
    """Return how many lines are equal from the start."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _range(start: int, end: int) -> str:
    """Format a range of a hunk header; an empty range is named by the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"
