"""`glob`: find files by name, the last modified first.

The search walks in a process of its own with a deadline. It does not use ripgrep, which opens folders by
name, so a folder swapped for a link meanwhile would lead it out of the project; ripgrep also reads ignore
files that git does not.
"""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import Outside, Place, outside_ask
from asyncagents.tools.file.read_log import Planned, Seen
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.glob_match import fitting
from asyncagents.tools.search.name_search import MOST_FILES, FoundNames, NameSearch
from asyncagents.tools.search.search_process import SearchOrder, run_search

SECONDS = 20.0
LAST_SECONDS = 10.0
"""After its deadline a search process has so long to answer before it is ended."""


class Glob(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The glob, such as **/*.py or src/**/*.{ts,tsx}.")]
    path: Annotated[
        str | None, Meta(description="The folder to look in; the working folder if left out.")
    ] = None


def glob(files: Files, seen: Seen, processes: Processes, *, seconds: float = SECONDS) -> Tool[Glob]:
    async def plan(args: Glob, context: ToolContext) -> tuple[Ask, ...]:
        fitting(args.pattern, ())
        place = await files.threads.run(files.place, args.path or ".", context.directory)
        seen.plan(context.call_id, Planned(place))
        return search_asks("glob", args.pattern, place, folder=True)

    async def run(args: Glob, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        job = NameSearch(
            root=files.root,
            place=place,
            pattern=args.pattern,
            seconds=seconds,
            guarded=files.guard.unreadable_around(place.path),
        )
        order = SearchOrder(job, seconds + LAST_SECONDS, "use a narrower pattern, or a deeper folder in path")
        return _told(await run_search(processes, order, FoundNames), place, args, context)

    return Tool("glob", Glob, run, plan=plan, effect="none", description=described("glob"))


def search_asks(permission: str, pattern: str, place: Place, *, folder: bool) -> tuple[Ask, ...]:
    """Return the asks for a search below a path."""
    metadata = {"pattern": pattern, "path": place.path}
    ask = Ask(permission, (pattern,), always=("*",), metadata=metadata)
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def readable(path: str, directory: str) -> str:
    """Return a path relative to the working folder if it is below it; file tools accept the result."""
    return whole(path.removeprefix(f"{directory.rstrip('/')}/"))


def _told(found: FoundNames, place: Place, args: Glob, context: ToolContext) -> Completed:
    lines = [readable(each, context.directory) for each in found.paths]
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
    return Completed(whole("\n".join(lines)), title=whole(args.pattern), metadata=metadata)
