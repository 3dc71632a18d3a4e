"""Which files a pattern of the shell may stand for, looked up with a bound on the work."""

import os
import re
from collections.abc import Iterator

from asyncagents.tools.shell_word import WILD, Word, compile_pattern, tame

MOST_WILD = 3
MOST_WORK = 50_000
_LOOK = 5
"""To follow a path costs as much as to read so many names of a folder."""


class TooMuch(Exception):
    """To look at everything that is meant would take too long."""


class Disk:
    """Looks at files on behalf of one shell line, so many times and no more."""

    def __init__(self) -> None:
        self._left = MOST_WORK

    def spend(self, work: int = _LOOK) -> None:
        self._left -= work
        if self._left < 0:
            raise TooMuch

    def find_matches(self, path: Word) -> list[str]:
        """Find what fits an absolute pattern; rather too much than too little, hidden files too."""
        parts = list(zip(path.split("/"), path.shape.split("/"), strict=True))
        if sum(not WILD.isdisjoint(shape) for _, shape in parts) > MOST_WILD:
            raise TooMuch
        found = [""]
        for text, shape in parts[1:]:
            if WILD.isdisjoint(shape):
                found = [f"{above}/{text}" for above in found]
            else:
                found = [
                    name for above in found for name in self._list(above, compile_pattern(Word(text, shape)))
                ]
        return [each for each in found if self._exists(each)]

    def has_link(self, path: str) -> bool:
        """Say whether this is a link, or a folder that holds one."""
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

    def passes_link(self, path: str) -> bool:
        """Say whether a link stands anywhere on the way, or at its end."""
        parts = path.split("/")
        self.spend(len(parts))
        return any(os.path.islink("/".join(parts[:count])) for count in range(2, len(parts) + 1))

    def scan(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    self.spend(1)
                    yield entry
        except OSError:
            return

    def _list(self, folder: str, fitting: re.Pattern[str]) -> Iterator[str]:
        yield from (f"{folder}/{entry.name}" for entry in self.scan(folder) if fitting.fullmatch(entry.name))

    def _exists(self, path: str) -> bool:
        self.spend()
        return os.path.lexists(path)


def join_words(place: str, word: Word) -> Word:
    """Join a word to the folder that it is read from."""
    if word.startswith("/"):
        return word
    above = place.rstrip("/") + "/"
    return Word(above + word, tame(above) + word.shape)
