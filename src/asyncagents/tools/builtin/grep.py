"""`grep`: find lines that match a regular expression, with their files and numbers.

The search runs in a process of its own with a deadline: a pattern can take for ever, and Python's `re`
would block the whole runtime meanwhile. Ripgrep, if installed, only preselects files.
"""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.agent.permission import Effective
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.builtin.glob import readable, search_asks
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import Place, read_asks
from asyncagents.tools.file.read_log import Planned, Seen
from asyncagents.tools.file.text import encode
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.glob_match import fitting
from asyncagents.tools.search.grep import Search, Searched
from asyncagents.tools.search.grep_lines import MOST_MATCHES
from asyncagents.tools.search.search_process import SearchOrder, run_search

SECONDS = 60.0
LONGEST = 4_000
_USUAL = Effective.of(default_rules())


class Grep(Struct, frozen=True):
    pattern: Annotated[
        str,
        Meta(min_length=1, max_length=LONGEST, description="The regular expression, as Python reads it."),
    ]
    path: Annotated[
        str | None, Meta(description="The folder or file to search; the working folder if left out.")
    ] = None
    include: Annotated[
        str | None, Meta(description="A glob for the files to search, such as *.py or *.{ts,tsx}.")
    ] = None


def grep(files: Files, seen: Seen, processes: Processes, *, seconds: float = SECONDS) -> Tool[Grep]:
    async def plan(args: Grep, context: ToolContext) -> tuple[Ask, ...]:
        encode(args.pattern, "pattern")
        fitting(args.include or "**", ())
        place = await files.threads.run(files.place, args.path or ".", context.directory)
        folder = await files.threads.run(files.is_folder, place)
        seen.plan(context.call_id, Planned(place))
        asks = search_asks("grep", args.pattern, place, folder=folder)
        if folder:
            return asks
        (guard,) = await files.threads.run(files.guards, [place])
        return (*read_asks("read", place, guard=guard), asks[-1])  # searching a single file reads it

    async def run(args: Grep, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        search = Search(
            root=files.root,
            place=place,
            pattern=args.pattern,
            include=args.include,
            rules=context.rules or _USUAL,
            guarded=files.guard.unreadable_around(place.path),
        )
        return _told(await search_lines(processes, search, seconds), place, args, context)

    return Tool("grep", Grep, run, plan=plan, effect="none", description=described("grep"))


async def search_lines(processes: Processes, search: Search, seconds: float) -> Searched:
    """Run a search; raise `ToolError` if it fails or takes longer than `seconds`."""
    advice = "use a simpler pattern, or search fewer files with path and include"
    return await run_search(processes, SearchOrder(search, seconds, advice), Searched)


def _told(answer: Searched, place: Place, args: Grep, context: ToolContext) -> Completed:
    lines: list[str] = []
    file = ""
    for match in answer.matches:
        if match.path != file:
            file = match.path
            lines.append(f"{readable(file, context.directory)}:")
        lines.append(f"  {match.number}: {match.text}")
    if not lines:
        lines.append(f"No line below {place.path} fits the pattern.")
    lines += _notes(answer)
    metadata = {"matches": len(answer.matches), "truncated": answer.more or answer.cut}
    return Completed(whole("\n".join(lines)), title=args.pattern[:200], metadata=metadata)


def _notes(answer: Searched) -> list[str]:
    notes: list[str] = []
    if answer.more:
        notes.append(
            f"(There are more than {MOST_MATCHES} matches; use a narrower pattern, path or include.)"
        )
    if answer.cut:
        notes.append("(There are too many files to search all of them; name a deeper folder in path.)")
    if answer.secret:
        notes.append(
            f"({answer.secret} files that may not be read unasked were not searched; "
            "name one in path to ask for it.)"
        )
    if answer.unread:
        notes.append(f"({answer.unread} files could not be opened or are too large, and were not searched.)")
    return notes
