"""`glob`: find files by name, the last modified first.

The search walks in a process of its own with a deadline. It does not use ripgrep, which opens folders by
name, so a folder swapped for a link meanwhile would lead it out of the project; ripgrep also reads ignore
files that git does not.
"""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import OutsidePath, ResolvedPath, outside_ask
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.glob_match import glob_filter
from asyncagents.tools.search.name_search import MOST_FILES, FoundNames, NameSearch
from asyncagents.tools.search.search_process import SearchRequest, run_search

SECONDS = 20.0
GRACE_SECONDS = 10.0
"""After its deadline a search process has so long to answer before it is ended."""


class GlobArgs(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The glob, such as **/*.py or src/**/*.{ts,tsx}.")]
    path: Annotated[
        str | None, Meta(description="The folder to look in; the working folder if left out.")
    ] = None


def glob(
    files: Files, read_log: ReadLog, processes: Processes, *, seconds: float = SECONDS
) -> Tool[GlobArgs]:
    async def plan(args: GlobArgs, context: ToolContext) -> tuple[Ask, ...]:
        glob_filter(args.pattern, ())
        place = await files.threads.run(files.resolve, args.path or ".", context.directory)
        read_log.record_plan(context.call_id, CallPlan(place))
        return search_asks("glob", args.pattern, place, folder=True)

    async def run(args: GlobArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        job = NameSearch(
            root=files.root,
            place=place,
            pattern=args.pattern,
            seconds=seconds,
            guarded=files.guard.unreadable_around(place.path),
        )
        request = SearchRequest(
            job, seconds + GRACE_SECONDS, "use a narrower pattern, or a deeper folder in path"
        )
        return _build_result(await run_search(processes, request, FoundNames), place, args, context)

    return Tool("glob", GlobArgs, run, plan=plan, effect="none", description=load_description("glob"))


def search_asks(permission: str, pattern: str, place: ResolvedPath, *, folder: bool) -> tuple[Ask, ...]:
    """Return the asks for a search below a path."""
    metadata = {"pattern": pattern, "path": place.path}
    ask = Ask(permission, (pattern,), always=("*",), metadata=metadata)
    return (outside_ask(place, folder=folder), ask) if isinstance(place, OutsidePath) else (ask,)


def relative_path(path: str, directory: str) -> str:
    """Return a path relative to the working folder if it is below it; file tools accept the result."""
    return replace_surrogates(path.removeprefix(f"{directory.rstrip('/')}/"))


def _build_result(found: FoundNames, place: ResolvedPath, args: GlobArgs, context: ToolContext) -> Completed:
    lines = [relative_path(each, context.directory) for each in found.paths]
    if not lines:
        lines.append(f"No file below {place.path} fits {args.pattern}.")
    if found.count > MOST_FILES:
        lines.append(
            f"(The {MOST_FILES} last changed of {found.count} files; "
            "use a narrower pattern or path for others.)"
        )
    if found.cut:
        lines.append("(There are too many files to look at all of them; name a deeper folder in path.)")
    metadata = {"count": len(found.paths), "truncated": found.cut or found.count > MOST_FILES}
    return Completed(
        replace_surrogates("\n".join(lines)), title=replace_surrogates(args.pattern), metadata=metadata
    )
