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
from asyncagents.tools.files import Entry, Files
from asyncagents.tools.gitignore import Rule, is_ignored, rules
from asyncagents.tools.place import Place, read_asks
from asyncagents.tools.seen import Planned, Seen
from asyncagents.tools.walk import rules_above, rules_in

MOST_ENTRIES = 300
_MOST_FOLDERS = 1_000
_MOST_IN_ONE = 100
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


def _grown(files: Files, top: Place, args: List) -> _Tree:
    tree = _Tree({})
    first = (*rules(_USUAL), *rules_above(files, top))
    waiting = deque([(top.parts, first)])
    looked = 0
    while waiting and tree.count < MOST_ENTRIES and looked < _MOST_FOLDERS:
        parts, known = waiting.popleft()
        looked += 1
        here = replace(top, parts=parts)
        known = (*known, *rules_in(files, here))
        own = rules(args.ignore, top.parts)
        for entry in _kept(files, here, (*known, *own), tree):
            if entry.folder:
                waiting.append(((*parts, entry.name), known))
    tree.cut = tree.cut or bool(waiting)
    return tree


def _kept(files: Files, here: Place, known: tuple[Rule, ...], tree: _Tree) -> list[Entry]:
    """The entries of one folder that are shown; a crowded folder shows its first ones."""
    try:
        entries = files.names(here)
    except ToolError:
        return []  # it went away, or is closed to us: shown by its name alone
    kept = [e for e in entries if not is_ignored((*here.parts, e.name), known, folder=e.folder)]
    shown = kept[: min(_MOST_IN_ONE, MOST_ENTRIES - tree.count)]
    tree.cut = tree.cut or len(shown) < len(kept)
    tree.count += len(shown)
    tree.entries[here.parts] = shown
    return shown


def _drawn(tree: _Tree, parts: tuple[str, ...], depth: int) -> list[str]:
    lines: list[str] = []
    for entry in tree.entries.get(parts, []):
        mark = "/" if entry.folder else "@" if entry.link else ""
        lines.append(f"{'  ' * depth}{entry.name}{mark}")
        if entry.folder:
            lines += _drawn(tree, (*parts, entry.name), depth + 1)
    return lines
