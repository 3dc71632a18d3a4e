"""Places that an agent changes only when a person says so: by what they are, however they are spelled."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

Level: TypeAlias = Literal["guarded", "secret", "sealed"]
"""Guarded: to change it asks. Secret: to read it asks, too. Sealed: no tool reads or changes it."""
Parts: TypeAlias = tuple[str, ...]
"""The names of an absolute path, from the root down."""

_STRICTNESS: dict[Level, int] = {"guarded": 0, "secret": 1, "sealed": 2}
# Others than git have hooks and programs in their configuration, too.
_REPOSITORIES = (".git", ".hg", ".jj")
_OUR_FOLDERS = (".asyncagents", ".agents", ".opencode", ".claude")
_OUR_FILES = ("asyncagents.json", "asyncagents.jsonc", "opencode.json", "opencode.jsonc")
# Checkouts that other programs keep in their folder: each is a project of its own.
_CHECKOUTS = "worktrees"
_GIT_WHY = "git, or its like, obeys it: it can name programs that are run"
_OUR_WHY = "it says what agents are and what they may do"
_OUTPUT = re.compile(r"output-[^/]*\.txt")
# A disk may find a file also by its short name, and without what stands behind a dot, a blank or a colon.
_SHORT = re.compile(r"([^~]{1,6})~[0-9]+")
_LETTERS_OF_SHORT = 6
_OBEYED = frozenset({"config", "config.worktree", "commondir", "hooks", "head"})
_FILE_PIECES = frozenset({"config", "config.worktree", "commondir", "head"})
_PIECES = _OBEYED | {"gitdir", "info", "objects", "refs", "packed-refs", "modules", "worktrees"}


class Guard(Struct, frozen=True):
    """How a place is guarded, and why, in words for a person."""

    level: Level
    why: str


class KnownPlace(Struct, frozen=True, kw_only=True):
    """A file or folder of this machine that is guarded with all that lies below it."""

    path: str
    """Absolute."""
    level: Level = "guarded"
    why: str
    ending: str | None = None
    """If given, only files directly in it whose names end so."""


class GuardedPlaces(Struct, frozen=True, kw_only=True, cache_hash=True):
    known: tuple[KnownPlace, ...] = ()
    output: str = ""
    """The folder of saved outputs: a file of it can be read if its name is known, the folder cannot."""


def split_path(path: str) -> Parts:
    """Name the parts of an absolute path; a backslash parts names as well, as it does for rules."""
    return tuple(part for part in path.replace("\\", "/").split("/") if part)


def fold_name(name: str) -> str:
    """Write a name as the most lenient disk would find it: no case, no invisible letters, no tail."""
    seen = "".join(char for char in name if unicodedata.category(char) not in {"Cf", "Cc", "Mn"})
    return unicodedata.normalize("NFKC", seen).casefold().partition(":")[0].rstrip(" .")


def guard_of_name(parts: Parts) -> Guard | None:
    """Tell by names alone whether a place belongs to git or to us, at whatever depth."""
    names = [fold_name(part) for part in parts]
    at = 0
    while at < len(names):
        if any(_is_called(names[at], folder) for folder in _REPOSITORIES):
            return Guard("guarded", _GIT_WHY)
        if any(_is_called(names[at], folder) for folder in _OUR_FOLDERS):
            if names[at + 1 : at + 2] != [_CHECKOUTS] or len(names) <= at + 3:
                return Guard("guarded", _OUR_WHY)
            at += 2
        at += 1
    if names and names[-1] in _OUR_FILES:
        return Guard("guarded", _OUR_WHY)
    return None


def is_guarded_name(name: str) -> bool:
    return guard_of_name(split_path(name)) is not None


def guard_of(parts: Parts, places: GuardedPlaces) -> Guard | None:
    """Tell the strictest guard of a real place; None: there is none."""
    if _is_saved_output(parts, places):
        return Guard("guarded", "it is output that was saved")
    named = guard_of_name(parts)
    index, folded = _index(places), tuple(part.casefold() for part in parts)
    found = [named] if named else []
    for depth in range(len(folded) + 1):
        known = index.get(folded[:depth], ())
        found += (Guard(each.level, each.why) for each in known if _covers(each, parts, depth))
    return strictest_guard(found)


def _covers(known: KnownPlace, parts: Parts, depth: int) -> bool:
    """Whether a place so many names down guards what lies at or below it."""
    return known.ending is None or (depth == len(parts) - 1 and parts[-1].endswith(known.ending))


def strictest_guard(guards: Collection[Guard]) -> Guard | None:
    return max(guards, key=lambda guard: _STRICTNESS[guard.level], default=None)


@lru_cache(maxsize=64)
def _index(places: GuardedPlaces) -> dict[Parts, list[KnownPlace]]:
    """By path, without regard to case: on some disks it makes no difference."""
    found: dict[Parts, list[KnownPlace]] = {}
    for each in places.known:
        found.setdefault(tuple(part.casefold() for part in split_path(each.path)), []).append(each)
    return found


def is_below(parts: Parts, above: Parts) -> bool:
    """Whether the first is the second or lies in it; on some disks case makes no difference."""
    if len(parts) < len(above):
        return False
    return all(
        part == name or part.casefold() == name.casefold() for part, name in zip(parts, above, strict=False)
    )


def secrets_below(parts: Parts, places: GuardedPlaces) -> Iterator[KnownPlace]:
    """Find what may not be read unasked in a folder that is read as a whole."""
    for known in places.known:
        if known.level != "guarded" and is_below(split_path(known.path), parts):
            yield known


def unreadable_around(parts: Parts, places: GuardedPlaces) -> GuardedPlaces:
    """Keep what matters to who reads below a folder."""
    known = tuple(
        each
        for each in places.known
        if each.level != "guarded"
        and (is_below(split_path(each.path), parts) or is_below(parts, split_path(each.path)))
    )
    return GuardedPlaces(known=known, output=places.output)


def makes_repository(piece: str, present: Collection[str]) -> bool:
    """Whether a file that begins with this name in a folder is, or makes, what git takes for a repository.

    `present` are the names of such pieces that the folder holds. Git wants HEAD, objects and refs; of a
    worktree, HEAD and commondir, and the others where that points to. Whatever order they come in, the one
    that makes git obey a configuration or a hook is seen.
    """
    if not is_piece(piece):
        return False
    have = {fold_name(name) for name in present} | {fold_name(piece)}
    if "head" in have and have & {"objects", "refs", "commondir", "config", "config.worktree", "hooks"}:
        return True
    return {"objects", "refs"} <= have and bool(have & _OBEYED)


def is_piece(name: str) -> bool:
    """Whether a repository has a file or folder of this name at its top."""
    return fold_name(name) in _PIECES


def is_file_piece(name: str) -> bool:
    """Whether git wants a file of this name, so that a folder is none of its."""
    return fold_name(name) in _FILE_PIECES


def is_repository(present: Collection[str]) -> bool:
    """Whether a folder with these names at its top is one that git uses."""
    have = {fold_name(name) for name in present}
    return "head" in have and (have >= {"objects", "refs"} or "commondir" in have)


def _is_called(folded: str, name: str) -> bool:
    """Also by its short name, which some disks have beside the long one."""
    if folded == name:
        return True
    short = _SHORT.fullmatch(folded)
    return short is not None and name.lstrip(".")[:_LETTERS_OF_SHORT] == short[1]


def _is_saved_output(parts: Parts, places: GuardedPlaces) -> bool:
    folder = split_path(places.output)
    return (
        bool(folder)
        and len(parts) == len(folder) + 1
        and is_below(parts, folder)
        and _OUTPUT.fullmatch(parts[-1]) is not None
    )
