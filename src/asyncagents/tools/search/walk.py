"""Walk the files below a folder, without those that `.gitignore` ignores; `Files` opens each folder."""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.folder import Entry, Folder
from asyncagents.tools.file.path import Outside, Place
from asyncagents.tools.file.text import BOM
from asyncagents.tools.git.index import Tracked
from asyncagents.tools.search.gitignore import MOST_CHARACTERS, Ignoring, Rule, rules

MOST_ENTRIES = 500_000
_GIT = ".git"
_RULES = ".gitignore"
_RULES_BYTES = 4 * MOST_CHARACTERS


class Found(Struct, frozen=True):
    parts: tuple[str, ...]
    changed: int
    """Time of the last modification, in nanoseconds."""


class Walked(Struct, frozen=True):
    files: list[Found]
    """The last modified first."""
    cut: bool
    """There were more entries than the limit, or the walk was stopped."""


class _Below(Struct, frozen=True):
    """A folder that is still to be walked."""

    parts: tuple[str, ...]
    ignoring: Ignoring | None
    """The rules from its parents; None: the folder is ignored, and only tracked files in it count."""


def walk(
    files: Files,
    top: Place,
    wanted: Callable[[tuple[str, ...]], bool],
    *,
    stopped: Callable[[], bool] = lambda: False,
    most: int = MOST_ENTRIES,
) -> Walked:
    """Return the files that `wanted` accepts. Links are not followed.

    `.git` is left out, and so are ignored files, unless git tracks them or the walk begins inside an ignored
    folder. `stopped` is called for each name: a project may have rules that take long.
    """
    found: list[Found] = []
    tracked = Tracked(top)
    waiting = [_Below(top.parts, Ignoring(rules_above(files, top)))]
    looked = 0
    while waiting and looked < most and not stopped():
        below = waiting.pop()
        looked += 1
        here = replace(top, parts=below.parts)
        if files.guard.is_sealed(here.path):
            continue
        try:
            with files.enter(here) as folder:
                entries = [each for each in folder.entries() if each.name != _GIT and not each.link]
                looked += len(entries)
                for next_below, is_folder in _kept(folder, below, entries, tracked):
                    if stopped():
                        break
                    if is_folder:
                        waiting.append(next_below)
                    elif wanted(next_below.parts):
                        found += _found(folder, next_below.parts)
        except ToolError:
            continue  # the folder is gone or not readable
    found.sort(key=lambda each: (-each.changed, each.parts))
    return Walked(found, bool(waiting) or stopped())


def _kept(
    folder: Folder, below: _Below, entries: list[Entry], tracked: Tracked
) -> Iterator[tuple[_Below, bool]]:
    """Yield the entries that no rule ignores or git tracks, each with whether it is a folder."""
    ignoring = below.ignoring
    if ignoring is not None and any(each.name == _RULES for each in entries):
        ignoring = ignoring.extend(_rules_of(folder, below.parts))
    for each in entries:
        parts = (*below.parts, each.name)
        if ignoring is not None and not ignoring.ignores(parts, folder=each.folder):
            yield _Below(parts, ignoring), each.folder
        elif tracked.holds(parts, folder=each.folder):
            yield _Below(parts, None), each.folder


def _found(folder: Folder, parts: tuple[str, ...]) -> Iterator[Found]:
    changed = folder.changed(parts[-1])
    if changed is not None:
        yield Found(parts, changed)


def rules_above(files: Files, place: Place) -> tuple[Rule, ...]:
    """Return the rules of the project's folders above a path."""
    if isinstance(place, Outside):
        return ()
    found: list[Rule] = []
    for depth in range(len(place.parts)):
        found += rules_in(files, replace(place, parts=place.parts[:depth]))
    return tuple(found)


def rules_in(files: Files, place: Place) -> tuple[Rule, ...]:
    try:
        with files.enter(place) as folder:
            return _rules_of(folder, place.parts)
    except ToolError:
        return ()


def _rules_of(folder: Folder, parts: tuple[str, ...]) -> tuple[Rule, ...]:
    try:
        data = folder.read_start(_RULES, _RULES_BYTES)
    except OSError:
        return ()
    # A file name may have bytes that are not valid UTF-8, and a rule may name it.
    text = data.removeprefix(BOM.encode()).decode("utf-8", "surrogateescape")
    return rules(text.split("\n"), parts)
