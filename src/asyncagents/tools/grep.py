"""`grep`: lines that fit a regular expression, with their files and numbers.

The search runs in a process of its own with a deadline: a pattern can take for ever, and Python's `re`
would hold up the whole runtime meanwhile. Ripgrep, if it is there, only tells which files are worth a look.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from asyncagents.domain.call import Completed
from asyncagents.domain.permission import Effective
from asyncagents.domain.text import whole
from asyncagents.engine.agents import default_rules
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.described import described
from asyncagents.tools.files import Files
from asyncagents.tools.glob import readable, search_asks
from asyncagents.tools.glob_pattern import fitting
from asyncagents.tools.grep_lines import MOST_MATCHES
from asyncagents.tools.grep_search import Search, Searched
from asyncagents.tools.place import Place, read_asks
from asyncagents.tools.process import Ended, Processes
from asyncagents.tools.seen import Planned, Seen
from asyncagents.tools.text import encode

SECONDS = 60.0
LONGEST = 4_000
# An answer has at most a hundred lines of 2,000 characters, each of up to six in JSON, and their paths.
_ANSWER = 8_000_000
_PACKAGE = str(Path(__file__).resolve().parent.parent)
_USUAL = Effective.of(default_rules())
# The package without its front door: the search needs a few modules, not the whole runtime.
_START = (
    "import sys, types; package = types.ModuleType('asyncagents'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['asyncagents'] = package; from asyncagents.tools.grep_search import main; main()"
)


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
        place = await asyncio.to_thread(files.place, args.path or ".", context.directory)
        folder = await asyncio.to_thread(files.is_folder, place)
        seen.plan(context.call_id, Planned(place))
        asks = search_asks("grep", args.pattern, place, folder=folder)
        if folder:
            return asks
        (guard,) = await asyncio.to_thread(files.guards, [place])
        return (*read_asks("read", place, guard=guard), asks[-1])  # to search one file is to read it

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

    timeout = seconds + 60  # it is to be started and ended too
    return Tool("grep", Grep, run, plan=plan, effect="none", timeout=timeout, description=described("grep"))


async def search_lines(processes: Processes, search: Search, seconds: float) -> Searched:
    """Raises `ToolError` if it takes too long, or cannot be done."""
    ended = await processes.run(_command(search), cwd=Path("/"), timeout=seconds, cap=_ANSWER)
    return _answer(ended, seconds)


def _command(search: Search) -> tuple[str, ...]:
    """In isolated mode nothing is imported from the project, whatever it holds."""
    asked = msgspec.json.encode(search).hex()
    return (sys.executable, "-I", "-c", _START, _PACKAGE, asked)


def _answer(ended: Ended, seconds: float) -> Searched:
    if ended.timed_out:
        raise ToolError(
            f"The search took longer than {seconds:g} seconds and was ended: use a simpler pattern, "
            "or search fewer files with path and include."
        )
    try:
        answer = msgspec.json.decode(ended.output.strip().rpartition("\n")[2], type=Searched)
    except msgspec.DecodeError as error:
        raise ToolError(
            f"The search ended with exit code {ended.exit} and no answer: use a simpler pattern, "
            "or search fewer files with path and include."
        ) from error
    if answer.error:
        raise ToolError(answer.error)
    return answer


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
