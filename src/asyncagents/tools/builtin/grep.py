"""`grep`: find lines that match a regular expression, with their files and numbers.

The search runs in a process of its own with a deadline: a pattern can take for ever, and Python's `re`
would block the whole runtime meanwhile. Ripgrep, if installed, only preselects files.
"""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.agent.permission import LineageRules
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.builtin.glob import relative_path, search_asks
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import ResolvedPath, read_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.file.text import encode
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.search.glob_match import glob_filter
from asyncagents.tools.search.grep import GrepResult, GrepSearch
from asyncagents.tools.search.grep_lines import MOST_MATCHES
from asyncagents.tools.search.search_process import SearchRequest, run_search

SECONDS = 60.0
MOST_PATTERN = 4_000
_DEFAULT_RULES = LineageRules.from_rules(default_rules())


class GrepArgs(Struct, frozen=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1, max_length=MOST_PATTERN, description="The regular expression, as Python reads it."
        ),
    ]
    path: Annotated[
        str | None, Meta(description="The folder or file to search; the working folder if left out.")
    ] = None
    include: Annotated[
        str | None, Meta(description="A glob for the files to search, such as *.py or *.{ts,tsx}.")
    ] = None


def grep(
    files: Files, read_log: ReadLog, processes: Processes, *, seconds: float = SECONDS
) -> Tool[GrepArgs]:
    async def plan(args: GrepArgs, context: ToolContext) -> tuple[Ask, ...]:
        encode(args.pattern, "pattern")
        glob_filter(args.include or "**", ())
        place = await files.threads.run(files.resolve, args.path or ".", context.directory)
        folder = await files.threads.run(files.is_folder, place)
        read_log.record_plan(context.call_id, CallPlan(place))
        asks = search_asks("grep", args.pattern, place, folder=folder)
        if folder:
            return asks
        (guard,) = await files.threads.run(files.guards, [place])
        return (*read_asks("read", place, guard=guard), asks[-1])  # searching a single file reads it

    async def run(args: GrepArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        search = GrepSearch(
            root=files.root,
            place=place,
            pattern=args.pattern,
            include=args.include,
            rules=context.rules or _DEFAULT_RULES,
            guarded=files.guard.unreadable_around(place.path),
        )
        return _build_result(await search_lines(processes, search, seconds), place, args, context)

    return Tool("grep", GrepArgs, run, plan=plan, effect="none", description=load_description("grep"))


async def search_lines(processes: Processes, search: GrepSearch, seconds: float) -> GrepResult:
    """Run a search; raise `ToolError` if it fails or takes longer than `seconds`."""
    advice = "use a simpler pattern, or search fewer files with path and include"
    return await run_search(processes, SearchRequest(search, seconds, advice), GrepResult)


def _build_result(result: GrepResult, place: ResolvedPath, args: GrepArgs, context: ToolContext) -> Completed:
    lines: list[str] = []
    file = ""
    for match in result.matches:
        if match.path != file:
            file = match.path
            lines.append(f"{relative_path(file, context.directory)}:")
        lines.append(f"  {match.number}: {match.text}")
    if not lines:
        lines.append(f"No line below {place.path} fits the pattern.")
    lines += _notes(result)
    metadata = {"matches": len(result.matches), "truncated": result.more or result.cut}
    return Completed(replace_surrogates("\n".join(lines)), title=args.pattern[:200], metadata=metadata)


def _notes(result: GrepResult) -> list[str]:
    notes: list[str] = []
    if result.more:
        notes.append(
            f"(There are more than {MOST_MATCHES} matches; use a narrower pattern, path or include.)"
        )
    if result.cut:
        notes.append("(There are too many files to search all of them; name a deeper folder in path.)")
    if result.secret:
        notes.append(
            f"({result.secret} files that may not be read unasked were not searched; "
            "name one in path to ask for it.)"
        )
    if result.unread:
        notes.append(f"({result.unread} files could not be opened or are too large, and were not searched.)")
    return notes
