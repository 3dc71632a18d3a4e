"""Compare two snapshots file by file."""

import os
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.conversation.session import FileDiff
from asyncagents.tools.git.shadow_repository import ShadowRepository, require_tree_name

MOST_PATCH = 512 * 1024
"""Characters of all patches together; later files have counts but no patch."""
MOST_TEXT = 256 * 1024
ALL_CONTEXT = 1_000_000
"""Lines of context: clients rebuild both versions of a file from its patch."""
Status: TypeAlias = Literal["added", "deleted", "modified"]
_STATUSES: dict[str, Status] = {"A": "added", "D": "deleted"}
_DIFF_OPTIONS = (
    "-r",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=all",
)
_PATCH_START = re.compile(rb"^diff --git ", re.MULTILINE)


class SnapshotChange(Struct, frozen=True):
    """A file that differs; a name that is not valid UTF-8 has surrogate escapes."""

    name: str
    status: Status
    additions: int
    deletions: int
    binary: bool


def changed_files(shadow: ShadowRepository, before: str, after: str) -> tuple[SnapshotChange, ...]:
    return tuple(
        each
        for each in _all_changes(shadow, before, after)
        if each.name.isprintable() or _has_text_name(each)
    )


def _has_text_name(each: SnapshotChange) -> bool:
    try:
        each.name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _diff_tree(shadow: ShadowRepository, before: str, after: str, *how: str) -> bytes:
    return shadow.run("diff-tree", *_DIFF_OPTIONS, *how, require_tree_name(before), require_tree_name(after))


def _all_changes(shadow: ShadowRepository, before: str, after: str) -> Iterator[SnapshotChange]:
    """Yield all changes in git's order."""
    statuses = _statuses(_diff_tree(shadow, before, after, "--name-status", "-z"))
    for each in _diff_tree(shadow, before, after, "--numstat", "-z").split(b"\0"):
        if not each:
            continue
        added, removed, raw = each.split(b"\t", 2)
        binary = added == b"-"
        numbers = (0, 0) if binary else (int(added), int(removed))
        yield SnapshotChange(os.fsdecode(raw), statuses.get(raw, "modified"), *numbers, binary)


def _statuses(found: bytes) -> dict[bytes, Status]:
    fields = found.split(b"\0")
    return {
        name: _STATUSES.get(letter.decode(), "modified")
        for letter, name in zip(fields[::2], fields[1::2], strict=False)
    }


def file_diffs(shadow: ShadowRepository, before: str, after: str) -> tuple[FileDiff, ...]:
    found = tuple(_all_changes(shadow, before, after))
    patches = _patches(shadow, before, after, len(found))
    left = MOST_PATCH
    diffs: list[FileDiff] = []
    for each, patch in zip(found, patches, strict=True):
        left -= len(patch)
        if _has_text_name(each):
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


def _patches(shadow: ShadowRepository, before: str, after: str, count: int) -> list[str]:
    """Return the patches in git's order; content lines begin with a sign, so none looks like a header."""
    if not count:
        return []
    raw = _diff_tree(shadow, before, after, "-p", f"--unified={ALL_CONTEXT}")
    begins = [match.start() for match in _PATCH_START.finditer(raw)]
    ends = [*begins[1:], len(raw)]
    pieces = [raw[a:b].decode(errors="replace") for a, b in zip(begins, ends, strict=True)]
    return pieces if len(pieces) == count else [""] * count


def diff_text(shadow: ShadowRepository, before: str, after: str) -> str:
    """Return the diff as one text, cut after the last file that fits into `MOST_TEXT`."""
    raw = _diff_tree(shadow, before, after, "-p")
    if len(raw) > MOST_TEXT:
        begins = [match.start() for match in _PATCH_START.finditer(raw)]
        raw = raw[: max((at for at in begins if at <= MOST_TEXT), default=0)]
    return raw.decode(errors="replace").strip()
