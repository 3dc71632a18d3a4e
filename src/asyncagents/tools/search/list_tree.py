"""List the entries below a folder as an indented tree."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.guarded import GuardedPlaces
from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.folder import FolderEntry
from asyncagents.tools.file.path import ResolvedPath
from asyncagents.tools.git.index import TrackedFiles
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.search.deadline import stop_after
from asyncagents.tools.search.gitignore import IgnoreRules, is_ignored, parse_rules
from asyncagents.tools.search.walk import rules_above, rules_in

MOST_ENTRIES = 300
_MOST_FOLDERS = 1_000
_MOST_PER_FOLDER = 100
_GIT = ".git"
_DEFAULT_IGNORES = (
    *(".git/", ".hg/", ".svn/", ".idea/", "node_modules/", "dist/", "build/", "target/"),
    *("__pycache__/", ".venv/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".tox/", ".cache/"),
)


class TreeListing(Struct, frozen=True, kw_only=True, tag="tree"):
    root: str
    place: ResolvedPath
    ignore: tuple[str, ...] = ()
    seconds: float
    """After this time the result is what was found so far."""
    guarded: GuardedPlaces = GuardedPlaces()
    """Places that may not be read are not shown either."""


class ListedTree(Struct, frozen=True, kw_only=True):
    lines: tuple[str, ...] = ()
    count: int = 0
    cut: bool = False
    error: str = ""


def list_tree(listing: TreeListing) -> ListedTree:
    try:
        files = Files(Path(listing.root), guard=PlaceGuard(listing.guarded))
        return build_tree(files, listing, stop_after(listing.seconds))
    except ToolError as error:
        return ListedTree(error=replace_surrogates(str(error)))
    except MemoryError:
        return ListedTree(error="The folder holds too much to be listed; name a deeper one.")


def build_tree(files: Files, listing: TreeListing, stopped: Callable[[], bool]) -> ListedTree:
    place = listing.place
    files.list_folder(place)  # raises the error about the folder itself
    tree = _collect_tree(files, listing, stopped)
    lines = (f"{place.path}/", *_draw_lines(tree, place.parts, 1))
    return ListedTree(lines=tuple(map(replace_surrogates, lines)), count=tree.count, cut=tree.cut)


class _Tree(Struct):
    """Entries found so far, breadth first, so that a cut drops the deepest."""

    entries: dict[tuple[str, ...], list[FolderEntry]]
    count: int = 0
    cut: bool = False


class _WaitingFolder(Struct, frozen=True):
    parts: tuple[str, ...]
    ignoring: IgnoreRules | None
    """None: the folder is ignored, and only tracked files in it are shown."""


class _EntryFilter:
    """Selects the entries to show: not ignored, or tracked by git, and not excluded by the caller."""

    def __init__(self, files: Files, listing: TreeListing, stopped: Callable[[], bool]) -> None:
        self._files = files
        self._top = listing.place
        self._tracked = TrackedFiles(listing.place)
        self._caller_rules = parse_rules(listing.ignore, listing.place.parts)
        self._stopped = stopped

    def entries(self, below: _WaitingFolder) -> list[tuple[FolderEntry, _WaitingFolder]]:
        """Return the entries to show; stops between names, since a project may have rules that take long."""
        here = replace(self._top, parts=below.parts)
        try:
            entries = self._files.list_folder(here)
        except ToolError:
            return []  # the folder is gone or not readable: only its name is shown
        rules = below.ignoring and below.ignoring.extend(rules_in(self._files, here))
        found: list[tuple[FolderEntry, _WaitingFolder]] = []
        for each in entries:
            if self._stopped():
                break
            waiting_folder = self._keep_entry(each, (*below.parts, each.name), rules)
            if waiting_folder is not None:
                found.append((each, waiting_folder))
        return found

    def _keep_entry(
        self, entry: FolderEntry, parts: tuple[str, ...], rules: IgnoreRules | None
    ) -> _WaitingFolder | None:
        if self._files.guard.is_sealed(replace(self._top, parts=parts).path):
            return None
        if (entry.name == _GIT and entry.folder) or is_ignored(
            parts, self._caller_rules, folder=entry.folder
        ):
            return None
        if rules is not None and not rules.ignores(parts, folder=entry.folder):
            return _WaitingFolder(parts, rules)
        return _WaitingFolder(parts, None) if self._tracked.holds(parts, folder=entry.folder) else None


def _collect_tree(files: Files, listing: TreeListing, stopped: Callable[[], bool]) -> _Tree:
    top = listing.place
    tree, choice = _Tree({}), _EntryFilter(files, listing, stopped)
    waiting = deque(
        [_WaitingFolder(top.parts, IgnoreRules((*parse_rules(_DEFAULT_IGNORES), *rules_above(files, top))))]
    )
    looked = 0
    while waiting and tree.count < MOST_ENTRIES and looked < _MOST_FOLDERS and not stopped():
        below = waiting.popleft()
        looked += 1
        entries = choice.entries(below)
        shown = entries[
            : min(_MOST_PER_FOLDER, MOST_ENTRIES - tree.count)
        ]  # a large folder shows its first entries
        tree.cut = tree.cut or len(shown) < len(entries)
        tree.count += len(shown)
        tree.entries[below.parts] = [entry for entry, _ in shown]
        waiting += (each for entry, each in shown if entry.folder)
    tree.cut = tree.cut or bool(waiting) or stopped()
    return tree


def _draw_lines(tree: _Tree, parts: tuple[str, ...], depth: int) -> list[str]:
    lines: list[str] = []
    for entry in tree.entries.get(parts, []):
        mark = "/" if entry.folder else "@" if entry.link else ""
        lines.append(f"{'  ' * depth}{entry.name}{mark}")
        if entry.folder:
            lines += _draw_lines(tree, (*parts, entry.name), depth + 1)
    return lines
