"""`list`: show the files below a folder as a tree."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import read_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.file.text import encode
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.list_tree import ListedTree, TreeListing
from asyncagents.tools.search.search_process import SearchRequest, run_search

SECONDS = 20.0
GRACE_SECONDS = 10.0
"""After its deadline a search process has so long to answer before it is ended."""


class ListArgs(Struct, frozen=True):
    path: Annotated[str | None, Meta(description="The folder; the working folder if left out.")] = None
    ignore: Annotated[
        list[Annotated[str, Meta(max_length=500)]],
        Meta(description="More patterns to leave out, as in .gitignore.", max_length=100),
    ] = []


def list_files(
    files: Files, read_log: ReadLog, processes: Processes, *, seconds: float = SECONDS
) -> Tool[ListArgs]:
    async def plan(args: ListArgs, context: ToolContext) -> tuple[Ask, ...]:
        for pattern in args.ignore:
            encode(pattern, "ignore")
        place = await files.threads.run(files.resolve, args.path or ".", context.directory)
        read_log.record_plan(context.call_id, CallPlan(place))
        return read_asks("list", place, folder=True)

    async def run(args: ListArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        job = TreeListing(
            root=files.root,
            place=place,
            ignore=tuple(args.ignore),
            seconds=seconds,
            guarded=files.guard.unreadable_around(place.path),
        )
        request = SearchRequest(job, seconds + GRACE_SECONDS, "name a deeper folder in path")
        tree = await run_search(processes, request, ListedTree)
        lines = tree.lines
        if tree.cut:
            lines += (f"(Cut after {tree.count} entries; list a deeper folder to see more of it.)",)
        metadata = {"count": tree.count, "truncated": tree.cut}
        return Completed("\n".join(lines), title=place.name, metadata=metadata)

    return Tool("list", ListArgs, run, plan=plan, effect="none", description=load_description("list"))
