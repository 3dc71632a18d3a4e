"""`read`: show a file with line numbers, or list a folder."""

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.files import Files, Missing
from asyncagents.tools.file.fingerprint import Content
from asyncagents.tools.file.lines import count_lines, lines_from
from asyncagents.tools.file.media import about_media
from asyncagents.tools.file.path import Place, read_asks
from asyncagents.tools.file.read_log import Planned, Seen
from asyncagents.tools.file.text import BOM, is_binary

MOST_LINES = 2_000
MOST_LINE = 2_000
MOST_CHARS = 50_000
_MOST_COMPARED, _MOST_LETTERS = 300, 60
"""Limits of names compared, and of letters of each: comparing takes quadratic time."""


class Read(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file or folder to read.")]
    offset: Annotated[int, Meta(description="The first line to show, from 1.", ge=0)] = 1
    limit: Annotated[int, Meta(description="How many lines to show.", ge=1)] = MOST_LINES


def read(files: Files, seen: Seen) -> Tool[Read]:
    async def plan(args: Read, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.place, args.file_path, context.directory)
        seen.plan(context.call_id, Planned(place))
        (guard,) = await files.threads.run(files.guards, [place])
        return read_asks("read", place, guard=guard)

    async def run(args: Read, context: ToolContext) -> Completed:
        place = seen.planned(context.call_id).place
        return await files.threads.run(_run, files, seen, args, (place, context))

    return Tool("read", Read, run, plan=plan, effect="none", description=described("read"))


def _run(files: Files, seen: Seen, args: Read, where: tuple[Place, ToolContext]) -> Completed:
    place, context = where
    if files.is_folder(place):
        return _folder(files, place, args)
    try:
        content = files.read(place)
    except Missing as error:
        raise Missing(f"{error}{_similar(files, place)}") from error
    told = about_media(place.name, content.data)
    if told is None:
        told = _text(place, content, args)
        seen.note(context.session_id, place, content.stamp)
    return told


def _folder(files: Files, place: Place, args: Read) -> Completed:
    entries = files.names(place)
    lines = [f"{entry.name}{'/' if entry.folder else '@' if entry.link else ''}" for entry in entries]
    first = _first(args, len(lines))
    chosen = enumerate(islice(lines, first - 1, first - 1 + args.limit), first)
    shown, note = _window(chosen, len(lines))
    output = "\n".join([f"{place.path} is a folder of {len(lines)} entries:", *shown, *note])
    return Completed(whole(output), title=place.name, metadata={"count": len(lines), "truncated": bool(note)})


def _text(place: Place, content: Content, args: Read) -> Completed:
    if is_binary(content.data):
        raise ToolError(f"{place.name} is a binary file; look at it with a command, such as file or strings.")
    data = content.data.removeprefix(BOM.encode())
    total = count_lines(data)
    first = _first(args, total)
    lines = enumerate(islice(lines_from(data, first, MOST_LINE), args.limit), first)
    shown, note = _window(((number, f"{number:6d}\t{_cut(line)}") for number, line in lines), total)
    return Completed(
        "\n".join([*shown, *note]) or "(the file is empty)",
        title=place.name,
        metadata={"lines": total, "truncated": bool(note)},
    )


def _first(args: Read, total: int) -> int:
    """Return the number of the first requested line; raise `ToolError` if it is past the end."""
    first = max(1, args.offset)
    if first > max(1, total):
        raise ToolError(f"offset {first} is past the end: there are {total} lines.")
    return first


def _window(lines: Iterable[tuple[int, str]], total: int) -> tuple[list[str], list[str]]:
    """Return the lines that fit in `MOST_CHARS`, and a note if there are more."""
    shown: list[str] = []
    room, last = MOST_CHARS, total
    for number, line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
        last = number
    more = [f"(Shown up to {last} of {total}; go on with offset {last + 1}.)"] if last < total else []
    return shown, more


def _cut(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}… (line cut)"


def _similar(files: Files, place: Place) -> str:
    """Suggest up to three similar names in the same folder."""
    if not place.parts:
        return ""
    name = place.parts[-1]
    try:
        names = [entry.name for entry in files.names(replace(place, parts=place.parts[:-1]))]
    except ToolError:
        return ""
    near = nsmallest(_MOST_COMPARED, names, key=lambda each: abs(len(each) - len(name)))
    lowered = {each.lower()[:_MOST_LETTERS]: each for each in near}
    found = [
        lowered[each] for each in get_close_matches(name.lower()[:_MOST_LETTERS], lowered, n=3, cutoff=0.5)
    ]
    return whole(f" Did you mean {' or '.join(found)}?") if found else ""
