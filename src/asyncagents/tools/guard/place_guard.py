"""Find the guard of a path on the disk: by links, other spellings, repositories, git's configuration."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec.structs import replace

from asyncagents.domain.agent.guarded import (
    Guard,
    GuardedPlaces,
    KnownPlace,
    guard_of,
    is_repository,
    is_repository_file,
    is_repository_piece,
    makes_repository,
    places_for_reading,
    secrets_below,
    split_path,
    strictest_guard,
)
from asyncagents.tools.guard.git_config import paths_named_by_git

_REPOSITORY_GUARD = Guard(
    "guarded", "it is part of a git repository, or would make one: git obeys what is in it"
)
_NAMED_REASON = "git's configuration names it as a program, hook or further configuration"
# Names by which a folder is recognised as a repository.
_REPOSITORY_NAMES = (
    "HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks",
)  # fmt: skip


class PlaceGuard:
    """The guarded places of one project. The disk is read once; a project read again has a new guard."""

    def __init__(self, places: GuardedPlaces, *, root: str = "", home: str = "") -> None:
        self._places = places
        self._root = root
        self._home = home

    @cached_property
    def places(self) -> GuardedPlaces:
        """The guarded places by name and, where links lead elsewhere, by real path."""
        named = paths_named_by_git(self._root, self._home) if self._root else ()
        known = (*self._places.known, *(KnownPlace(path=path, why=_NAMED_REASON) for path in named))
        paths = _real_paths([each.path for each in known])
        real = [
            replace(each, path=path) for each, path in zip(known, paths, strict=True) if path != each.path
        ]
        output = os.path.realpath(self._places.output) if self._places.output else ""
        return GuardedPlaces(known=(*known, *real), output=output)

    @cached_property
    def _known_inodes(self) -> dict[tuple[int, int], KnownPlace]:
        """Known places by device and inode, which find them under other spellings and bind mounts, too."""
        found = {}
        for known in self.places.known:
            if known.ending is None and (number := _inode_of(known.path)) is not None:
                found[number] = known
        return found

    def guard_by_name(self, path: str) -> Guard | None:
        """Return the guard of a real path by its name alone, without reading the disk."""
        return guard_of(split_path(path), self.places)

    def guard_at(self, path: str, beside: Sequence[str] = ()) -> Guard | None:
        """Return the guard of a real path, which need not exist; `beside`: files that are written with it."""
        by_name = self.guard_by_name(path)
        found = [by_name] if by_name else []
        if by_name is None or by_name.level == "guarded":
            found += self._guards_by_inode(path)
        if not found and is_in_repository(path, beside):
            found.append(_REPOSITORY_GUARD)
        if not found and self._root and _is_named_by_git(path, self._home):
            found.append(Guard("guarded", _NAMED_REASON))
        return strictest_guard(found)

    @cached_property
    def _sealed_paths(self) -> tuple[str, ...]:
        return tuple({each.path.casefold() for each in self.places.known if each.level == "sealed"})

    def is_sealed(self, path: str) -> bool:
        """Return whether a real path is sealed, so that no tool may open it; fast, for many paths."""
        folded = path.casefold()
        if not any(folded == each or folded.startswith(f"{each}/") for each in self._sealed_paths):
            return False
        guard = self.guard_by_name(path)
        return guard is not None and guard.level == "sealed"

    def unreadable_around(self, path: str) -> GuardedPlaces:
        """Return the places that a search process may not read at or below a folder."""
        return places_for_reading(split_path(path), self.places)

    def secrets_below(self, path: str) -> tuple[str, ...]:
        """Return the existing paths at or below a folder that may not be read unasked."""
        found = secrets_below(split_path(path), self.places)
        return tuple(dict.fromkeys(each.path for each in found if os.path.lexists(each.path)))

    def secrets_around(self, path: str) -> tuple[str, ...]:
        """Return `secrets_below` a folder; the folder itself if it is secret or inside a secret place."""
        guard = self.guard_at(path)
        inside = guard is not None and guard.level != "guarded"
        return (path,) if inside else self.secrets_below(path)

    def _guards_by_inode(self, path: str) -> Iterator[Guard]:
        if self._is_spill_file(path):
            return
        for above in _paths_upwards(path):
            known = self._known_inodes.get(_inode_of(above) or (0, 0))
            if known is not None:
                yield Guard(known.level, known.why)

    def _is_spill_file(self, path: str) -> bool:
        """Return whether a path is a spill file: its folder is sealed, but the file may be read by name."""
        output = self.places.output
        return bool(output) and os.path.dirname(path) == output and not self.is_sealed(path)


UNGUARDED = PlaceGuard(GuardedPlaces())
"""A guard without known places; names that git obeys are guarded all the same."""


def is_in_repository(path: str, beside: Sequence[str] = ()) -> bool:
    """Return whether a file lies in a folder that git takes for a repository, or turns its folder into one.

    A checkout inside a bare repository is not part of it: git obeys nothing in there.
    """
    parts = tuple(part for part in path.split("/") if part)
    for depth in range(len(parts)):
        folder, piece = ("/" + "/".join(parts[:depth])).rstrip("/"), parts[depth]
        is_last = depth == len(parts) - 1
        if not is_repository_piece(piece) and not os.path.lexists(f"{folder}/HEAD"):
            continue
        present = [name for name in _REPOSITORY_NAMES if _is_present(f"{folder}/{name}")]
        present += _first_names(folder, beside)
        if is_repository(present):
            if is_last or is_repository_piece(piece) or not os.path.lexists(f"{folder}/{piece}/.git"):
                return True
        elif (is_last or not is_repository_file(piece)) and makes_repository(piece, present):
            return True
    return False


def _is_present(path: str) -> bool:
    """Return whether a piece of a repository exists; a folder with a file piece's name does not count."""
    if is_repository_file(os.path.basename(path)):
        return os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path))
    return os.path.lexists(path)


def _first_names(folder: str, paths: Sequence[str]) -> Iterator[str]:
    """Yield the names directly inside a folder that writing these paths would create."""
    for path in paths:
        if path.startswith(f"{folder}/"):
            name, *below = path.removeprefix(f"{folder}/").split("/")
            if not (below and is_repository_file(name)):
                yield name


def _is_named_by_git(path: str, home: str) -> bool:
    """Return whether the current configuration of the nearest repository or submodule names a file."""
    for above in _paths_upwards(os.path.dirname(path)):
        if os.path.lexists(f"{above}/.git"):
            named = map(os.path.realpath, paths_named_by_git(above, home))
            return any(path == each or path.startswith(f"{each}/") for each in named)
    return False


def could_make_repository(path: str) -> bool:
    """Return whether a file of this name can be a piece of a repository: those are written one by one."""
    return any(is_repository_piece(part) for part in split_path(path))


def _real_paths(paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths with links followed; each folder, shared by many paths, is resolved once."""
    folders: dict[str, str] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        full = os.path.join(folders[folder], name)
        yield os.path.realpath(full) if os.path.islink(full) else full


def _paths_upwards(path: str) -> Sequence[str]:
    parts = tuple(part for part in path.split("/") if part)
    return ["/" + "/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _inode_of(path: str) -> tuple[int, int] | None:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    return about.st_dev, about.st_ino
