"""`list`: show the files below a folder as a tree."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import read_asks
from asyncagents.tools.file.read_log import Planned, Seen
from asyncagents.tools.file.text import encode
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.list_tree import ListedTree, TreeListing
from asyncagents.tools.search.search_process import SearchOrder, run_search

SECONDS = 20.0
LAST_SECONDS = 10.0
"""After its deadline a search process has so long to answer before it is ended."""


class List(Struct, frozen=True):
    path: Annotated[str | None, Meta(description="The folder; the working folder if left out.")] = None
    ignore: Annotated[
        list[Annotated[str, Meta(max_length=500)]],
        Meta(description="More patterns to leave out, as in .gitignore.", max_length=100),
    ] = []


def list_files(files: Files, seen: Seen, processes: Processes, *, seconds: float = SECONDS) -> Tool[List]:
    async def plan(args: List, context: ToolContext) -> tuple[Ask, ...]:
        for pattern in args.ignore:
            encode(pattern, "ignore")
        place = await files.threads.run(files.place, args.path or ".", context.directory)
        seen.plan(context.call_id, Planned(place))
        return read_asks("list", place, folder=True)

    async def run(args: List, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        job = TreeListing(
            root=files.root,
            place=place,
            ignore=tuple(args.ignore),
            seconds=seconds,
            guarded=files.guard.unreadable_around(place.path),
        )
        order = SearchOrder(job, seconds + LAST_SECONDS, "name a deeper folder in path")
        tree = await run_search(processes, order, ListedTree)
        lines = tree.lines
        if tree.cut:
            lines += (f"(Cut after {tree.count} entries; list a deeper folder to see more of it.)",)
        metadata = {"count": tree.count, "truncated": tree.cut}
        return Completed("\n".join(lines), title=place.name, metadata=metadata)

    return Tool("list", List, run, plan=plan, effect="none", description=described("list"))
