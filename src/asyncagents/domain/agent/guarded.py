"""Guarded places: files and folders that an agent changes only with a person's approval."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

GuardLevel: TypeAlias = Literal["guarded", "secret", "sealed"]
"""`guarded`: changes ask. `secret`: reading asks, too. `sealed`: no tool reads or changes it."""
PathParts: TypeAlias = tuple[str, ...]
"""The names of an absolute path, from the root down."""

_STRICTNESS: dict[GuardLevel, int] = {"guarded": 0, "secret": 1, "sealed": 2}
# Other version control systems also run hooks and programs from their configuration.
_REPOSITORIES = (".git", ".hg", ".jj")
OUR_FOLDERS = (".asyncagents", ".agents", ".opencode", ".claude")
OUR_FILES = ("asyncagents.json", "asyncagents.jsonc", "opencode.json", "opencode.jsonc")
# Checkouts that other programs keep in their folder; each is a separate project.
_CHECKOUTS = "worktrees"
_GIT_WHY = "git, or its like, obeys it: it can name programs that are run"
_OUR_WHY = "it says what agents are and what they may do"
_OUTPUT = re.compile(r"output-[^/]*\.txt")
# A file system may also find a file by its short name, and without a trailing dot, blank or `:stream`.
_SHORT_NAME = re.compile(r"([^~]{1,6})~[0-9]+")
_SHORT_NAME_LETTERS = 6
_OBEYED = frozenset({"config", "config.worktree", "commondir", "hooks", "head"})
_FILE_PIECES = frozenset({"config", "config.worktree", "commondir", "head"})
_PIECES = _OBEYED | {"gitdir", "info", "objects", "refs", "packed-refs", "modules", "worktrees"}


class Guard(Struct, frozen=True):
    """The level of a guarded place, and the reason as a text for people."""

    level: GuardLevel
    why: str


class KnownPlace(Struct, frozen=True, kw_only=True):
    """A file or folder of this machine that is guarded with everything below it."""

    path: str
    """Absolute."""
    level: GuardLevel = "guarded"
    why: str
    ending: str | None = None
    """If given, only files directly in the folder whose names end with it."""


class GuardedPlaces(Struct, frozen=True, kw_only=True, cache_hash=True):
    known: tuple[KnownPlace, ...] = ()
    output: str = ""
    """The folder of saved outputs: its files can be read by name, the folder cannot be listed."""


def split_path(path: str) -> PathParts:
    """Split an absolute path into names; a backslash also separates names, as it does in rules."""
    return tuple(part for part in path.replace("\\", "/").split("/") if part)


def fold_name(name: str) -> str:
    """Normalize a name as the most lenient file system does: no case, no invisible characters, no suffix."""
    seen = "".join(char for char in name if unicodedata.category(char) not in {"Cf", "Cc", "Mn"})
    return unicodedata.normalize("NFKC", seen).casefold().partition(":")[0].rstrip(" .")


def guard_of_name(parts: PathParts) -> Guard | None:
    """Return the guard of a path that belongs to git or to us, judged by names alone, at any depth."""
    names = [fold_name(part) for part in parts]
    at = 0
    while at < len(names):
        if any(_has_name(names[at], folder) for folder in _REPOSITORIES):
            return Guard("guarded", _GIT_WHY)
        if any(_has_name(names[at], folder) for folder in OUR_FOLDERS):
            if names[at + 1 : at + 2] != [_CHECKOUTS] or len(names) <= at + 3:
                return Guard("guarded", _OUR_WHY)
            at += 2
        at += 1
    if names and names[-1] in OUR_FILES:
        return Guard("guarded", _OUR_WHY)
    return None


def is_guarded_name(name: str) -> bool:
    return guard_of_name(split_path(name)) is not None


def guard_of(parts: PathParts, places: GuardedPlaces) -> Guard | None:
    """Return the strictest guard of a resolved path; None if it is not guarded."""
    if _is_saved_output(parts, places):
        return Guard("guarded", "it is output that was saved")
    named = guard_of_name(parts)
    index, folded = _index(places), tuple(part.casefold() for part in parts)
    found = [named] if named else []
    for depth in range(len(folded) + 1):
        known = index.get(folded[:depth], ())
        found += (Guard(each.level, each.why) for each in known if _covers(each, parts, depth))
    return strictest_guard(found)


def _covers(known: KnownPlace, parts: PathParts, depth: int) -> bool:
    """Tell whether a guarded place at this depth covers the path."""
    return known.ending is None or (depth == len(parts) - 1 and parts[-1].endswith(known.ending))


def strictest_guard(guards: Collection[Guard]) -> Guard | None:
    return max(guards, key=lambda guard: _STRICTNESS[guard.level], default=None)


@lru_cache(maxsize=64)
def _index(places: GuardedPlaces) -> dict[PathParts, list[KnownPlace]]:
    """Index places by path, ignoring case, since some file systems ignore it."""
    found: dict[PathParts, list[KnownPlace]] = {}
    for each in places.known:
        found.setdefault(tuple(part.casefold() for part in split_path(each.path)), []).append(each)
    return found


def is_below(parts: PathParts, above: PathParts) -> bool:
    """Tell whether the first path is the second or lies in it, ignoring case."""
    if len(parts) < len(above):
        return False
    return all(
        part == name or part.casefold() == name.casefold() for part, name in zip(parts, above, strict=False)
    )


def secrets_below(parts: PathParts, places: GuardedPlaces) -> Iterator[KnownPlace]:
    """Yield the secret and sealed places below a folder that is read as a whole."""
    for known in places.known:
        if known.level != "guarded" and is_below(split_path(known.path), parts):
            yield known


def places_for_reading(parts: PathParts, places: GuardedPlaces) -> GuardedPlaces:
    """Keep the secret and sealed places that matter when files below a folder are read."""
    known = tuple(
        each
        for each in places.known
        if each.level != "guarded"
        and (is_below(split_path(each.path), parts) or is_below(parts, split_path(each.path)))
    )
    return GuardedPlaces(known=known, output=places.output)


def makes_repository(piece: str, present: Collection[str]) -> bool:
    """Tell whether creating this file turns a folder into what git takes for a repository.

    `present`: the names of such files that the folder already has. Git requires HEAD, objects and refs; for a
    worktree, HEAD and commondir, and the others where commondir points to. In any order of creation, the file
    that makes git obey a configuration or a hook is detected.
    """
    if not is_repository_piece(piece):
        return False
    have = {fold_name(name) for name in present} | {fold_name(piece)}
    if "head" in have and have & {"objects", "refs", "commondir", "config", "config.worktree", "hooks"}:
        return True
    return {"objects", "refs"} <= have and bool(have & _OBEYED)


def is_repository_piece(name: str) -> bool:
    """Tell whether a repository has a file or folder of this name at its top level."""
    return fold_name(name) in _PIECES


def is_repository_file(name: str) -> bool:
    """Tell whether git requires a file, not a folder, of this name."""
    return fold_name(name) in _FILE_PIECES


def is_repository(present: Collection[str]) -> bool:
    """Tell whether git takes a folder with these names at its top level for a repository."""
    have = {fold_name(name) for name in present}
    return "head" in have and (have >= {"objects", "refs"} or "commondir" in have)


def _has_name(folded: str, name: str) -> bool:
    """Compare names, also by the short name that some file systems keep."""
    if folded == name:
        return True
    short = _SHORT_NAME.fullmatch(folded)
    return short is not None and name.lstrip(".")[:_SHORT_NAME_LETTERS] == short[1]


def _is_saved_output(parts: PathParts, places: GuardedPlaces) -> bool:
    folder = split_path(places.output)
    return (
        bool(folder)
        and len(parts) == len(folder) + 1
        and is_below(parts, folder)
        and _OUTPUT.fullmatch(parts[-1]) is not None
    )
