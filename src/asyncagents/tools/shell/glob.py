"""Look up the files that a shell pattern may match, with a bound on the work."""

import errno
import os
from collections.abc import Iterator

from asyncagents.tools.shell.word import WILDCARDS, Word, compile_pattern, mask_wildcards

MOST_WILDCARD_PARTS = 3
MOST_WORK = 50_000
_LOOKUP_COST = 5
"""Cost of resolving one path, in names read from a folder."""


ANYWHERE = "/"
_MOST_LINKS = 40
_NOT_A_LINK = {errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}


class TooMuchWork(Exception):
    """Looking at every file that may be meant would take too long."""


class BoundedDisk:
    """File lookups for one shell line, bounded by `MOST_WORK`. Raises `TooMuchWork`."""

    def __init__(self) -> None:
        self._work_left = MOST_WORK

    def spend(self, work: int = _LOOKUP_COST) -> None:
        """Subtract from the work that is left; raise `TooMuchWork` if none is."""
        self._work_left -= work
        if self._work_left < 0:
            raise TooMuchWork

    def find_matches(self, path: Word) -> list[str]:
        """Return paths that match an absolute pattern, hidden ones too: rather too many than too few."""
        parts = list(zip(path.split("/"), path.shape.split("/"), strict=True))
        if sum(not WILDCARDS.isdisjoint(shape) for _, shape in parts) > MOST_WILDCARD_PARTS:
            raise TooMuchWork
        found = [""]
        for text, shape in parts[1:]:
            if WILDCARDS.isdisjoint(shape):
                found = [f"{above}/{text}" for above in found]
            else:
                found = [name for above in found for name in self._list_matches(above, Word(text, shape))]
        return [each for each in found if self._exists(each)]

    def has_link(self, path: str) -> bool:
        """Return whether the path is a link, or a folder with a link somewhere below it."""
        folders = [path]
        while folders:
            self.spend()
            at = folders.pop()
            if os.path.islink(at):
                return True
            for entry in self.scan(at):
                if entry.is_symlink():
                    return True
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        return False

    def is_folder(self, path: str) -> bool:
        self.spend()
        return os.path.isdir(path)

    def passes_link(self, path: str, place: str) -> bool:
        """Return whether `path`, or a folder between `place` and `path`, is a link."""
        above = place.rstrip("/")
        inside = path.startswith(f"{above}/")
        parts = path.removeprefix(above).split("/") if inside else path.split("/")
        self.spend(len(parts))
        ends = range(2, len(parts) + 1)
        return any(os.path.islink((above if inside else "") + "/".join(parts[:end])) for end in ends)

    def scan(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    self.spend(1)
                    yield entry
        except OSError:
            return

    def _list_matches(self, folder: str, word: Word) -> Iterator[str]:
        fitting, by_bytes = compile_pattern(word), compile_pattern(word, by_bytes=True)
        for entry in self.scan(folder):
            if (fitting if entry.name.isascii() else by_bytes).fullmatch(entry.name):
                yield f"{folder}/{entry.name}"

    def _exists(self, path: str) -> bool:
        self.spend()
        return os.path.lexists(path)


def join_path(place: str, word: Word) -> Word:
    """Join a word to the folder that it is relative to."""
    if word.startswith("/"):
        return word
    above = place.rstrip("/") + "/"
    return Word(above + word, mask_wildcards(above) + word.shape)


def resolve_links(path: str) -> str:
    """Follow links as the shell would; return `ANYWHERE` for a link that cannot be read.

    The same for a link below /proc: it leads elsewhere for the shell than for this process.
    """
    todo = path.split("/")[::-1]
    at, links = "", 0
    while todo:
        part = todo.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            at = os.path.dirname(at).rstrip("/")
            continue
        target = _read_link(f"{at}/{part}")
        links += bool(target)
        if links > _MOST_LINKS or (target and (target == ANYWHERE or f"{at}/".startswith("/proc/"))):
            return ANYWHERE
        at = "" if target.startswith("/") else at if target else f"{at}/{part}"
        todo += target.split("/")[::-1]
    return at or "/"


def _read_link(path: str) -> str:
    """Return the target of a link; an empty string if the path is not a link."""
    try:
        return os.readlink(path)
    except OSError as failure:
        return "" if failure.errno in _NOT_A_LINK else ANYWHERE
    except ValueError:
        return ANYWHERE
