"""Which places outside the project the words of a shell line may name."""

import os
import re
from collections.abc import Iterable, Iterator
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from asyncagents.tools import shell_command

MOST_PLACES = 16
MOST_MATCHES = 1_000
MOST_WILD = 3
MOST_LOOKS = 10_000
_GLOB = frozenset("*?[")
# Known to be harmless as words; as names of files they may be anything.
_VARIABLE = re.compile(r"\$(\?|#|\$|USER|\{USER\})")
_HIDDEN_ABOVE = re.compile(r"/\.[*?\[][^/]*")

Words: TypeAlias = tuple[str, ...]


def paths_outside(commands: Iterable[Words], *, directory: Path, start: Path, home: Path) -> Iterator[str]:
    """The real paths outside the project that the commands name."""
    project = os.path.realpath(directory)
    places = [str(start)]
    for path in _named(commands, places, str(home)):
        real = os.path.realpath(path)
        if real != project and not real.startswith(project.rstrip("/") + "/") and real != os.devnull:
            yield real


def _named(commands: Iterable[Words], places: list[str], home: str) -> Iterator[str]:
    """Every path that may be meant: a `cd` may have happened, or not, before a relative one is read."""
    yield places[0]
    looked = 0
    for words in commands:
        for word in filter(None, shell_command.candidates(words)):
            if words[0] in shell_command.PATHS and _VARIABLE.search(word):
                yield "/"  # which file that is only the shell knows
            for place in places:
                looked += 1 + 100 * bool(_GLOB & set(word))
                if looked > MOST_LOOKS:
                    yield "/"  # to look at all of them would take too long
                    return
                yield from _meant(os.path.join(place, _expanded(word, home, place)))
        if words[0] == "cd" and len(places) >= MOST_PLACES:
            yield "/"
        elif words[0] == "cd":
            target = words[1] if len(words) > 1 else home
            there = [os.path.join(place, _expanded(target, home, place)) for place in places]
            # To cd, `link/..` is where the link lies, not above where it leads.
            places += [*there, *(os.path.normpath(each) for each in there if ".." in each.split("/"))]
            yield from places[-2:]


def _expanded(word: str, home: str, place: str) -> str:
    for name, value in (("HOME", home), ("PWD", place)):
        word = word.replace(f"${name}", value).replace(f"${{{name}}}", value)
    if word == "~" or word.startswith("~/"):
        word = home + word[1:]
    elif word.startswith("~"):
        word = "/" + word
    return word.replace("\0", "")


def _meant(path: str) -> Iterator[str]:
    """What a path with wildcards may be by now: a link among them leads out as well as any other."""
    if not _GLOB & set(path):
        yield path
        return
    yield re.split(r"[*?\[]", path)[0]
    if sum(bool(_GLOB & set(part)) for part in path.split("/")) > MOST_WILD:
        yield "/"  # to look for all of them would take too long
        return
    if _HIDDEN_ABOVE.search(path):  # before 5.2, `.?` is also `..` to bash
        yield _HIDDEN_ABOVE.sub("/..", path, count=1)
    try:
        yield from islice(iglob(path, include_hidden=True), MOST_MATCHES)
    except (OSError, ValueError):
        yield "/"


def named_paths(commands: Iterable[Words], *, start: Path, home: Path) -> Iterator[str]:
    """The real path of everything that the commands may name, the folder that they start in first."""
    for path in _named(commands, [str(start)], str(home)):
        yield os.path.realpath(path)
