"""Compare two snapshots file by file."""

import os
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.conversation.session import FileDiff
from asyncagents.tools.git.shadow_repository import Shadow, named

MOST_PATCH = 512 * 1024
"""Characters of all patches together; later files have counts but no patch."""
MOST_TEXT = 256 * 1024
WHOLE = 1_000_000
"""Lines of context: clients rebuild both versions of a file from its patch."""
Status: TypeAlias = Literal["added", "deleted", "modified"]
_STATUSES: dict[str, Status] = {"A": "added", "D": "deleted"}
_PLAIN = "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"
_BEGIN = re.compile(rb"^diff --git ", re.MULTILINE)


class Changed(Struct, frozen=True):
    """A file that differs; a name that is not valid UTF-8 has surrogate escapes."""

    name: str
    status: Status
    additions: int
    deletions: int
    binary: bool


def changed(shadow: Shadow, before: str, after: str) -> tuple[Changed, ...]:
    return tuple(each for each in _every(shadow, before, after) if each.name.isprintable() or _is_text(each))


def _is_text(each: Changed) -> bool:
    try:
        each.name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _compared(shadow: Shadow, before: str, after: str, *how: str) -> bytes:
    return shadow.run("diff-tree", *_PLAIN, *how, named(before), named(after))


def _every(shadow: Shadow, before: str, after: str) -> Iterator[Changed]:
    """Yield all changes in git's order."""
    statuses = _statuses(_compared(shadow, before, after, "--name-status", "-z"))
    for each in _compared(shadow, before, after, "--numstat", "-z").split(b"\0"):
        if not each:
            continue
        added, removed, raw = each.split(b"\t", 2)
        binary = added == b"-"
        numbers = (0, 0) if binary else (int(added), int(removed))
        yield Changed(os.fsdecode(raw), statuses.get(raw, "modified"), *numbers, binary)


def _statuses(found: bytes) -> dict[bytes, Status]:
    fields = found.split(b"\0")
    return {
        name: _STATUSES.get(letter.decode(), "modified")
        for letter, name in zip(fields[::2], fields[1::2], strict=False)
    }


def file_diffs(shadow: Shadow, before: str, after: str) -> tuple[FileDiff, ...]:
    found = tuple(_every(shadow, before, after))
    patches = _patches(shadow, before, after, len(found))
    left = MOST_PATCH
    diffs: list[FileDiff] = []
    for each, patch in zip(found, patches, strict=True):
        left -= len(patch)
        if _is_text(each):
            diffs.append(
                FileDiff(
                    file=each.name,
                    patch="" if each.binary else patch if left >= 0 else None,
                    additions=each.additions,
                    deletions=each.deletions,
                    status=each.status,
                )
            )
    return tuple(diffs)


def _patches(shadow: Shadow, before: str, after: str, count: int) -> list[str]:
    """Return the patches in git's order; content lines begin with a sign, so none looks like a header."""
    if not count:
        return []
    raw = _compared(shadow, before, after, "-p", f"--unified={WHOLE}")
    begins = [match.start() for match in _BEGIN.finditer(raw)]
    ends = [*begins[1:], len(raw)]
    pieces = [raw[a:b].decode(errors="replace") for a, b in zip(begins, ends, strict=True)]
    return pieces if len(pieces) == count else [""] * count


def diff_text(shadow: Shadow, before: str, after: str) -> str:
    """Return the diff as one text, cut after the last file that fits into `MOST_TEXT`."""
    raw = _compared(shadow, before, after, "-p")
    if len(raw) > MOST_TEXT:
        begins = [match.start() for match in _BEGIN.finditer(raw)]
        raw = raw[: max((at for at in begins if at <= MOST_TEXT), default=0)]
    return raw.decode(errors="replace").strip()
