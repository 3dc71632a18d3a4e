"""Walk the files below a folder, without those that `.gitignore` ignores; `Files` opens each folder."""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.folder import FolderEntry, FolderHandle
from asyncagents.tools.file.path import OutsidePath, ResolvedPath
from asyncagents.tools.file.text import BOM
from asyncagents.tools.git.index import TrackedFiles
from asyncagents.tools.search.gitignore import MOST_CHARACTERS, IgnoreRule, IgnoreRules, parse_rules

MOST_ENTRIES = 500_000
_GIT = ".git"
_GITIGNORE = ".gitignore"
_GITIGNORE_BYTES = 4 * MOST_CHARACTERS


class FoundFile(Struct, frozen=True):
    parts: tuple[str, ...]
    modified_ns: int
    """Time of the last modification, in nanoseconds."""


class WalkResult(Struct, frozen=True):
    files: list[FoundFile]
    """The last modified first."""
    cut: bool
    """There were more entries than the limit, or the walk was stopped."""


class _WaitingFolder(Struct, frozen=True):
    """A folder that is still to be walked."""

    parts: tuple[str, ...]
    ignoring: IgnoreRules | None
    """The rules from its parents; None: the folder is ignored, and only tracked files in it count."""


def walk(
    files: Files,
    top: ResolvedPath,
    wanted: Callable[[tuple[str, ...]], bool],
    *,
    stopped: Callable[[], bool] = lambda: False,
    most: int = MOST_ENTRIES,
) -> WalkResult:
    """Return the files that `wanted` accepts. Links are not followed.

    `.git` is left out, and so are ignored files, unless git tracks them or the walk begins inside an ignored
    folder. `stopped` is called for each name: a project may have rules that take long.
    """
    found: list[FoundFile] = []
    tracked = TrackedFiles(top)
    waiting = [_WaitingFolder(top.parts, IgnoreRules(rules_above(files, top)))]
    looked = 0
    while waiting and looked < most and not stopped():
        below = waiting.pop()
        looked += 1
        here = replace(top, parts=below.parts)
        if files.guard.is_sealed(here.path):
            continue
        try:
            with files.open_folder(here) as folder:
                entries = [each for each in folder.entries() if each.name != _GIT and not each.link]
                looked += len(entries)
                for next_below, is_folder in _keep_entries(folder, below, entries, tracked):
                    if stopped():
                        break
                    if is_folder:
                        waiting.append(next_below)
                    elif wanted(next_below.parts):
                        found += _stat_file(folder, next_below.parts)
        except ToolError:
            continue  # the folder is gone or not readable
    found.sort(key=lambda each: (-each.modified_ns, each.parts))
    return WalkResult(found, bool(waiting) or stopped())


def _keep_entries(
    folder: FolderHandle, below: _WaitingFolder, entries: list[FolderEntry], tracked: TrackedFiles
) -> Iterator[tuple[_WaitingFolder, bool]]:
    """Yield the entries that no rule ignores or git tracks, each with whether it is a folder."""
    ignoring = below.ignoring
    if ignoring is not None and any(each.name == _GITIGNORE for each in entries):
        ignoring = ignoring.extend(_read_rules(folder, below.parts))
    for each in entries:
        parts = (*below.parts, each.name)
        if ignoring is not None and not ignoring.ignores(parts, folder=each.folder):
            yield _WaitingFolder(parts, ignoring), each.folder
        elif tracked.holds(parts, folder=each.folder):
            yield _WaitingFolder(parts, None), each.folder


def _stat_file(folder: FolderHandle, parts: tuple[str, ...]) -> Iterator[FoundFile]:
    changed = folder.modified_time(parts[-1])
    if changed is not None:
        yield FoundFile(parts, changed)


def rules_above(files: Files, place: ResolvedPath) -> tuple[IgnoreRule, ...]:
    """Return the rules of the project's folders above a path."""
    if isinstance(place, OutsidePath):
        return ()
    found: list[IgnoreRule] = []
    for depth in range(len(place.parts)):
        found += rules_in(files, replace(place, parts=place.parts[:depth]))
    return tuple(found)


def rules_in(files: Files, place: ResolvedPath) -> tuple[IgnoreRule, ...]:
    try:
        with files.open_folder(place) as folder:
            return _read_rules(folder, place.parts)
    except ToolError:
        return ()


def _read_rules(folder: FolderHandle, parts: tuple[str, ...]) -> tuple[IgnoreRule, ...]:
    try:
        data = folder.read_start(_GITIGNORE, _GITIGNORE_BYTES)
    except OSError:
        return ()
    # A file name may have bytes that are not valid UTF-8, and a rule may name it.
    text = data.removeprefix(BOM.encode()).decode("utf-8", "surrogateescape")
    return parse_rules(text.split("\n"), parts)
