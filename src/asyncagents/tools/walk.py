"""The files below a folder, without what `.gitignore` names; each folder is opened through the door."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.errors import ToolError
from asyncagents.tools.files import Entry, Files
from asyncagents.tools.gitignore import Rule, is_ignored, rules
from asyncagents.tools.place import Outside, Place
from asyncagents.tools.text import BOM

MOST_ENTRIES = 500_000
_GIT = ".git"


class Found(Struct, frozen=True):
    parts: tuple[str, ...]
    changed: int
    """When, in nanoseconds."""


class Walked(Struct, frozen=True):
    files: list[Found]
    """The last changed first."""
    cut: bool
    """There was more than could be looked at."""


def walk(
    files: Files,
    top: Place,
    wanted: Callable[[tuple[str, ...]], bool],
    *,
    stopped: Callable[[], bool] = lambda: False,
    most: int = MOST_ENTRIES,
) -> Walked:
    """Links are not followed: what they lead to is found under its real name, if it is below the folder.

    `.git` is left out, and so is what an ignored folder holds, unless the walk begins inside of it. Git's
    index is not read: a file that git keeps though a rule names it is left out too. Whether it is `stopped`
    is asked for each name: a project may have rules that take long.
    """
    found: list[Found] = []
    waiting = [(top.parts, rules_above(files, top))]
    looked = 0
    while waiting and looked < most and not stopped():
        parts, above = waiting.pop()
        here = replace(top, parts=parts)
        entries = _entries(files, here)
        looked += len(entries) + 1
        known = (*above, *rules_in(files, here))
        kept = [
            each
            for each in entries
            if not (stopped() or is_ignored((*parts, each.name), known, folder=each.folder))
        ]
        waiting += (((*parts, each.name), known) for each in kept if each.folder)
        names = [each.name for each in kept if not each.folder and wanted((*parts, each.name))]
        found += _changed(files, here, names)
    found.sort(key=lambda each: (-each.changed, each.parts))
    return Walked(found, bool(waiting) or stopped())


def rules_above(files: Files, place: Place) -> tuple[Rule, ...]:
    """The rules of the project's folders on the way down to the place."""
    if isinstance(place, Outside):
        return ()
    found: list[Rule] = []
    for depth in range(len(place.parts)):
        found += rules_in(files, replace(place, parts=place.parts[:depth]))
    return tuple(found)


def rules_in(files: Files, folder: Place) -> tuple[Rule, ...]:
    try:
        content = files.read_or_none(replace(folder, parts=(*folder.parts, ".gitignore")))
    except ToolError:
        return ()
    if content is None:
        return ()
    # A file name may have bytes that are no text, and a rule may name it.
    text = content.data.removeprefix(BOM.encode()).decode("utf-8", "surrogateescape")
    return rules(text.split("\n"), folder.parts)


def _entries(files: Files, here: Place) -> list[Entry]:
    try:
        return [each for each in files.names(here) if each.name != _GIT and not each.link]
    except ToolError:
        return []  # it went away, or is closed to us


def _changed(files: Files, here: Place, names: list[str]) -> list[Found]:
    if not names:
        return []
    try:
        times = files.times(here, names)
    except ToolError:
        return []
    return [Found((*here.parts, name), changed) for name, changed in times.items()]
