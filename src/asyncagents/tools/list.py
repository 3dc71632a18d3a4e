"""`list`: what lies below a folder, as a tree."""

import asyncio
from collections import deque
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from asyncagents.domain.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.described import described
from asyncagents.tools.files import Files
from asyncagents.tools.folder import Entry
from asyncagents.tools.git_index import Tracked
from asyncagents.tools.gitignore import Ignoring, is_ignored, rules
from asyncagents.tools.place import Place, read_asks
from asyncagents.tools.seen import Planned, Seen
from asyncagents.tools.walk import rules_above, rules_in

MOST_ENTRIES = 300
_MOST_FOLDERS = 1_000
_MOST_IN_ONE = 100
_GIT = ".git"
_USUAL = (
    *(".git/", ".hg/", ".svn/", ".idea/", "node_modules/", "dist/", "build/", "target/"),
    *("__pycache__/", ".venv/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".tox/", ".cache/"),
)


class List(Struct, frozen=True):
    path: Annotated[str | None, Meta(description="The folder; the working folder if left out.")] = None
    ignore: Annotated[
        list[Annotated[str, Meta(max_length=500)]],
        Meta(description="More patterns to leave out, as in .gitignore.", max_length=100),
    ] = []


class _Tree(Struct):
    """Found so far, breadth first, so that a cut takes the deepest."""

    entries: dict[tuple[str, ...], list[Entry]]
    count: int = 0
    cut: bool = False


def list_files(files: Files, seen: Seen) -> Tool[List]:
    async def plan(args: List, context: ToolContext) -> tuple[Ask, ...]:
        place = await asyncio.to_thread(files.place, args.path or ".", context.directory)
        seen.plan(context.call_id, Planned(place))
        return read_asks("list", place, folder=True)

    async def run(args: List, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        return await asyncio.to_thread(_run, files, place, args)

    return Tool("list", List, run, plan=plan, effect="none", description=described("list"))


def _run(files: Files, place: Place, args: List) -> Completed:
    files.names(place)  # an error about the folder itself is the answer
    tree = _grown(files, place, args)
    lines = [f"{place.path}/", *_drawn(tree, place.parts, 1)]
    if tree.cut:
        lines.append(f"(Cut after {tree.count} entries; list a deeper folder to see more of it.)")
    return Completed(
        whole("\n".join(lines)), title=place.name, metadata={"count": tree.count, "truncated": tree.cut}
    )


class _Below(Struct, frozen=True):
    parts: tuple[str, ...]
    ignoring: Ignoring | None
    """None: the folder is ignored itself, and only what git tracks in it is shown."""


class _Choice:
    """What of a folder is shown: what no rule ignores or git tracks, and the caller does not leave out."""

    def __init__(self, files: Files, top: Place, args: List) -> None:
        self._files = files
        self._top = top
        self._tracked = Tracked(top)
        self._own = rules(args.ignore, top.parts)

    def entries(self, below: _Below) -> list[tuple[Entry, _Below]]:
        here = replace(self._top, parts=below.parts)
        try:
            entries = self._files.names(here)
        except ToolError:
            return []  # it went away, or is closed to us: shown by its name alone
        rules = below.ignoring and below.ignoring.extend(rules_in(self._files, here))
        found = ((each, self._next(each, (*below.parts, each.name), rules)) for each in entries)
        return [(each, kept) for each, kept in found if kept is not None]

    def _next(self, entry: Entry, parts: tuple[str, ...], rules: Ignoring | None) -> _Below | None:
        sealed = self._files.guard.is_sealed(replace(self._top, parts=parts).path)
        if (
            sealed
            or (entry.name == _GIT and entry.folder)
            or is_ignored(parts, self._own, folder=entry.folder)
        ):
            return None
        if rules is not None and not rules.ignores(parts, folder=entry.folder):
            return _Below(parts, rules)
        return _Below(parts, None) if self._tracked.holds(parts, folder=entry.folder) else None


def _grown(files: Files, top: Place, args: List) -> _Tree:
    tree, choice = _Tree({}), _Choice(files, top, args)
    waiting = deque([_Below(top.parts, Ignoring((*rules(_USUAL), *rules_above(files, top))))])
    looked = 0
    while waiting and tree.count < MOST_ENTRIES and looked < _MOST_FOLDERS:
        below = waiting.popleft()
        looked += 1
        kept = choice.entries(below)
        shown = kept[: min(_MOST_IN_ONE, MOST_ENTRIES - tree.count)]  # a crowded folder shows its first ones
        tree.cut = tree.cut or len(shown) < len(kept)
        tree.count += len(shown)
        tree.entries[below.parts] = [entry for entry, _ in shown]
        waiting += (each for entry, each in shown if entry.folder)
    tree.cut = tree.cut or bool(waiting)
    return tree


def _drawn(tree: _Tree, parts: tuple[str, ...], depth: int) -> list[str]:
    lines: list[str] = []
    for entry in tree.entries.get(parts, []):
        mark = "/" if entry.folder else "@" if entry.link else ""
        lines.append(f"{'  ' * depth}{entry.name}{mark}")
        if entry.folder:
            lines += _drawn(tree, (*parts, entry.name), depth + 1)
    return lines
