"""`read`: show a file with line numbers, or list a folder."""

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.files import Files, MissingFile
from asyncagents.tools.file.fingerprint import FileState
from asyncagents.tools.file.lines import count_lines, lines_from
from asyncagents.tools.file.media import describe_media
from asyncagents.tools.file.path import ResolvedPath, read_asks
from asyncagents.tools.file.read_log import CallPlan, ReadLog
from asyncagents.tools.file.text import BOM, is_binary

MOST_LINES = 2_000
MOST_LINE = 2_000
MOST_CHARS = 50_000
_MOST_COMPARED, _MOST_LETTERS = 300, 60
"""Limits of names compared, and of letters of each: comparing takes quadratic time."""


class ReadArgs(Struct, frozen=True, rename="camel"):
    file_path: Annotated[str, Meta(description="The file or folder to read.")]
    offset: Annotated[int, Meta(description="The first line to show, from 1.", ge=0)] = 1
    limit: Annotated[int, Meta(description="How many lines to show.", ge=1)] = MOST_LINES


def read(files: Files, read_log: ReadLog) -> Tool[ReadArgs]:
    async def plan(args: ReadArgs, context: ToolContext) -> tuple[Ask, ...]:
        place = await files.threads.run(files.resolve, args.file_path, context.directory)
        read_log.record_plan(context.call_id, CallPlan(place))
        (guard,) = await files.threads.run(files.guards, [place])
        return read_asks("read", place, guard=guard)

    async def run(args: ReadArgs, context: ToolContext) -> Completed:
        place = read_log.plan_of(context.call_id).place
        return await files.threads.run(_read_path, files, read_log, args, (place, context))

    return Tool("read", ReadArgs, run, plan=plan, effect="none", description=load_description("read"))


def _read_path(
    files: Files, read_log: ReadLog, args: ReadArgs, where: tuple[ResolvedPath, ToolContext]
) -> Completed:
    place, context = where
    if files.is_folder(place):
        return _read_folder(files, place, args)
    try:
        content = files.read(place)
    except MissingFile as error:
        raise MissingFile(f"{error}{_suggest_names(files, place)}") from error
    result = describe_media(place.name, content.data)
    if result is None:
        result = _read_text(place, content, args)
        read_log.record(context.session_id, place, content.fingerprint)
    return result


def _read_folder(files: Files, place: ResolvedPath, args: ReadArgs) -> Completed:
    entries = files.list_folder(place)
    lines = [f"{entry.name}{'/' if entry.folder else '@' if entry.link else ''}" for entry in entries]
    first = _first_line(args, len(lines))
    chosen = enumerate(islice(lines, first - 1, first - 1 + args.limit), first)
    shown, note = _window(chosen, len(lines))
    output = "\n".join([f"{place.path} is a folder of {len(lines)} entries:", *shown, *note])
    return Completed(
        replace_surrogates(output), title=place.name, metadata={"count": len(lines), "truncated": bool(note)}
    )


def _read_text(place: ResolvedPath, content: FileState, args: ReadArgs) -> Completed:
    if is_binary(content.data):
        raise ToolError(f"{place.name} is a binary file; look at it with a command, such as file or strings.")
    data = content.data.removeprefix(BOM.encode())
    total = count_lines(data)
    first = _first_line(args, total)
    lines = enumerate(islice(lines_from(data, first, MOST_LINE), args.limit), first)
    shown, note = _window(((number, f"{number:6d}\t{_cut_line(line)}") for number, line in lines), total)
    return Completed(
        "\n".join([*shown, *note]) or "(the file is empty)",
        title=place.name,
        metadata={"lines": total, "truncated": bool(note)},
    )


def _first_line(args: ReadArgs, total: int) -> int:
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


def _cut_line(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}… (line cut)"


def _suggest_names(files: Files, place: ResolvedPath) -> str:
    """Suggest up to three similar names in the same folder."""
    if not place.parts:
        return ""
    name = place.parts[-1]
    try:
        names = [entry.name for entry in files.list_folder(replace(place, parts=place.parts[:-1]))]
    except ToolError:
        return ""
    near = nsmallest(_MOST_COMPARED, names, key=lambda each: abs(len(each) - len(name)))
    lowered = {each.lower()[:_MOST_LETTERS]: each for each in near}
    found = [
        lowered[each] for each in get_close_matches(name.lower()[:_MOST_LETTERS], lowered, n=3, cutoff=0.5)
    ]
    return replace_surrogates(f" Did you mean {' or '.join(found)}?") if found else ""
