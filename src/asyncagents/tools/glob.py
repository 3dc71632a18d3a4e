"""`glob`: files by their names, the last changed first.

It walks by itself and does not start ripgrep: that opens folders by name, so a folder swapped for a link
meanwhile would lead it out of the project, and it reads ignore files that git does not. One walk, one answer.
"""

import asyncio
from threading import Event
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from asyncagents.domain.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.described import described
from asyncagents.tools.files import Files
from asyncagents.tools.glob_pattern import fitting
from asyncagents.tools.place import Outside, Place, outside_ask
from asyncagents.tools.seen import Planned, Seen
from asyncagents.tools.walk import Walked, walk

MOST_FILES = 100


class Glob(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The glob, such as **/*.py or src/**/*.{ts,tsx}.")]
    path: Annotated[
        str | None, Meta(description="The folder to look in; the working folder if left out.")
    ] = None


def glob(files: Files, seen: Seen) -> Tool[Glob]:
    async def plan(args: Glob, context: ToolContext) -> tuple[Ask, ...]:
        fitting(args.pattern, ())
        place = await asyncio.to_thread(files.place, args.path or ".", context.directory)
        seen.plan(context.call_id, Planned(place))
        return search_asks("glob", args.pattern, place, folder=True)

    async def run(args: Glob, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        left = Event()
        try:
            walked = await asyncio.to_thread(_walked, files, place, args, left)
        finally:
            left.set()  # nobody waits any more: the walk ends at the next folder
        return _told(walked, place, args, context)

    return Tool("glob", Glob, run, plan=plan, effect="none", description=described("glob"))


def search_asks(permission: str, pattern: str, place: Place, *, folder: bool) -> tuple[Ask, ...]:
    """To look for something below a place."""
    metadata = {"pattern": pattern, "path": place.path}
    ask = Ask(permission, (pattern,), always=("*",), metadata=metadata)
    return (outside_ask(place, folder=folder), ask) if isinstance(place, Outside) else (ask,)


def readable(path: str, directory: str) -> str:
    """As the file tools take it back: relative to the working folder where that can be."""
    return whole(path.removeprefix(f"{directory.rstrip('/')}/"))


def _walked(files: Files, place: Place, args: Glob, left: Event) -> Walked:
    files.names(place)  # an error about the folder itself is the answer
    return walk(files, place, fitting(args.pattern, place.parts), stopped=left.is_set)


def _told(walked: Walked, place: Place, args: Glob, context: ToolContext) -> Completed:
    found = walked.files[:MOST_FILES]
    lines = [readable(replace(place, parts=each.parts).path, context.directory) for each in found]
    count = len(walked.files)
    if not lines:
        lines.append(f"No file below {place.path} fits {args.pattern}.")
    if count > MOST_FILES:
        lines.append(
            f"(The {MOST_FILES} last changed of {count} files; use a narrower pattern or path for others.)"
        )
    if walked.cut:
        lines.append("(There are too many files to look at all of them; name a deeper folder in path.)")
    metadata = {"count": len(found), "truncated": walked.cut or count > MOST_FILES}
    return Completed(whole("\n".join(lines)), title=whole(args.pattern), metadata=metadata)
