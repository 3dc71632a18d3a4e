"""`/file` and `/find`: listing, reading and searching files of a directory, never outside of it."""

from base64 import b64encode
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from threading import Event
from typing import Literal, assert_never

from msgspec import field

from asyncagents.config.trust import project_root
from asyncagents.domain.agent.permission import Effective, evaluate
from asyncagents.domain.call.result_file import mime_of
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.port import Clock
from asyncagents.domain.shape import Shape
from asyncagents.domain.text import whole
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.server.blocking import Names, NoFile
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.workplace import default_agent_rules, environment, place_guard
from asyncagents.server.params import DIRECTED, DIRECTORY, Query, directory, flag, number, one
from asyncagents.server.route import Param, Route, Site
from asyncagents.tools.builtin.grep import LONGEST, SECONDS, search_lines
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import Inside
from asyncagents.tools.file.text import is_binary
from asyncagents.tools.git.index import Tracked
from asyncagents.tools.guard.place_guard import UNGUARDED, PlaceGuard
from asyncagents.tools.search.fuzzy import best
from asyncagents.tools.search.gitignore import Ignoring
from asyncagents.tools.search.grep import Search
from asyncagents.tools.search.walk import rules_above, rules_in, walk

MOST_NAMES, FEW_NAMES = 200, 10
MOST_LISTED = 10_000
LONGEST_QUERY = 1_000
MOST_SHOWN = 10 * 1024 * 1024
MOST_WALKED = 200_000
WALK_MS, RULE_MS = 30_000, 5_000
"""Time limits of a walk and of the gitignore rules; after them the result is partial."""


class FileNode(Shape, frozen=True, kw_only=True):
    name: str
    path: str
    absolute: str
    type: Literal["file", "directory"]
    ignored: bool


class FileContent(Shape, frozen=True, kw_only=True):
    """`content` of a binary file is base64."""

    type: Literal["text", "binary"]
    content: str
    encoding: Literal["base64"] | None = None
    mime_type: str | None = None


class FoundText(Shape, frozen=True, kw_only=True):
    text: str


class FoundMatch(Shape, frozen=True, kw_only=True):
    match: FoundText
    start: int
    end: int


class FoundLine(Shape, frozen=True, kw_only=True):
    """A line with matches; offsets of the line and of its matches are in bytes."""

    path: FoundText
    lines: FoundText
    line_number: int = field(name="line_number")
    absolute_offset: int = field(name="absolute_offset")
    submatches: tuple[FoundMatch, ...]


async def listed(site: Site, request: Request) -> Answer:
    where, path = directory(site, request), one(request, "path") or "."
    return shown(await site.errands.run(partial(_listed, site.clock, where, path)))


def _listed(clock: Clock, where: str, path: str) -> list[FileNode]:
    """List a folder: subfolders first, then by name. Links and devices are omitted."""
    files, top = _opened(where)
    place = _inside(files, top, path)
    below = place.parts[len(top.parts) :]
    ignoring = Ignoring((*rules_above(files, place), *rules_in(files, place)))
    tracked = Tracked(place)
    entries, until = files.names(place), clock.now() + RULE_MS
    plain = files.times(place, [entry.name for entry in entries if not entry.folder])
    nodes = [
        FileNode(
            name=whole(entry.name),
            path=whole("/".join((*below, entry.name)) + ("/" if entry.folder else "")),
            absolute=whole(f"{place.path.rstrip('/')}/{entry.name}"),
            type="directory" if entry.folder else "file",
            ignored=clock.now() < until
            and ignoring.ignores(parts := (*place.parts, entry.name), folder=entry.folder)
            and not tracked.holds(parts, folder=entry.folder),
        )
        for entry in entries
        if entry.folder or entry.name in plain
    ]
    return sorted(nodes, key=lambda node: (node.type == "file", node.name))[:MOST_LISTED]


async def content(site: Site, request: Request) -> Answer:
    path = one(request, "path")
    if not path:
        raise InvalidInput("path is required: a file relative to the directory, such as path=src/main.py")
    rules, guard = await default_agent_rules(site, request), await place_guard(site, request)
    return shown(await site.errands.run(partial(_content, directory(site, request), path, rules, guard)))


def _content(where: str, path: str, rules: tuple[Rule, ...], guard: PlaceGuard) -> FileContent:
    """Read a file. A path whose rule is "ask" is readable here (the token holder would be asked anyway);
    "deny" is refused, and so are sealed places."""
    files, top = _opened(where, guard)
    place = _inside(files, top, path)
    if evaluate(rules, "read", place.name) == "deny":
        raise InvalidInput(f"{place.name} cannot be read: a rule of the permission read denies it")
    data = files.read(place).data
    if len(data) > MOST_SHOWN:
        raise InvalidInput(
            f"{place.name} is larger than {MOST_SHOWN // 1024**2} MiB; open it on the server's machine"
        )
    if not is_binary(data):
        try:
            return FileContent(type="text", content=data.decode())
        except UnicodeDecodeError:
            pass
    mime = mime_of(data) or guess_type(place.name)[0] or "application/octet-stream"
    return FileContent(type="binary", content=b64encode(data).decode(), encoding="base64", mime_type=mime)


async def found_files(site: Site, request: Request) -> Answer:
    return shown(await names_like(site, request, directory(site, request)))


async def names_like(site: Site, request: Request, where: str) -> list[str]:
    """Find paths below a directory by the query of the request; those of folders end with a slash."""
    query = one(request, "query") or ""
    if len(query) > LONGEST_QUERY:
        raise InvalidInput(f"query is too long: at most {LONGEST_QUERY} characters")
    kinds: tuple[Literal["file", "directory"], ...] = ("file", "directory")
    kind = Query(request.query).one_of("type", kinds)
    if kind is None and not flag(request, "dirs", default=True):
        kind = "file"
    limit = number(request, "limit", default=FEW_NAMES, most=MOST_NAMES)
    names = await site.index.names(site.errands, where, partial(_walked, site.clock))
    return list(await site.errands.run(lambda: best(query, _of_kind(names, kind), limit)))


def _walked(clock: Clock, where: str, left: Event) -> Names:
    """Collect the names of files and folders, without those that git ignores."""
    files, top = _opened(where)
    until = clock.now() + WALK_MS
    walked = walk(
        files,
        top,
        lambda parts: True,
        stopped=lambda: left.is_set() or clock.now() > until,
        most=MOST_WALKED,
    )
    found = [each.parts[len(top.parts) :] for each in walked.files]
    folders = {parts[:depth] for parts in found for depth in range(1, len(parts))}
    return Names(
        files=tuple(whole("/".join(parts)) for parts in found),
        folders=tuple(whole(f"{'/'.join(parts)}/") for parts in sorted(folders)),
    )


def _of_kind(names: Names, kind: Literal["file", "directory"] | None) -> tuple[str, ...]:
    match kind:
        case "file":
            return names.files
        case "directory":
            return names.folders
        case None:
            return names.files + names.folders
        case _:
            assert_never(kind)


async def found_lines(site: Site, request: Request) -> Answer:
    """Searches as the tool `grep` does: files that need a permission to be read are skipped."""
    pattern = one(request, "pattern")
    if not pattern or len(pattern) > LONGEST:
        raise InvalidInput(f"pattern is required: a regular expression of up to {LONGEST} characters")
    guard = await place_guard(site, request)
    files, top = await site.errands.run(partial(_opened, directory(site, request), guard))
    search = Search(
        root=files.root,
        place=top,
        pattern=pattern,
        rules=Effective.of(await default_agent_rules(site, request)),
        guarded=guard.unreadable_around(top.path),
        hits=True,
    )
    try:
        answer = await search_lines(site.errands.processes, search, SECONDS)
    except ToolError as error:
        raise InvalidInput(str(error)) from error
    return shown(
        [
            FoundLine(
                path=FoundText(text=match.path.removeprefix(f"{top.path.rstrip('/')}/")),
                lines=FoundText(text=f"{match.text}\n"),
                line_number=match.number,
                absolute_offset=match.offset,
                submatches=tuple(
                    FoundMatch(match=FoundText(text=hit.text), start=hit.start, end=hit.end)
                    for hit in match.hits
                ),
            )
            for match in answer.matches
        ]
    )


async def nothing(site: Site, request: Request) -> Answer:
    return shown([])


def _opened(where: str, guard: PlaceGuard = UNGUARDED) -> tuple[Files, Inside]:
    """Open the files of the directory's project, and locate the directory in it."""
    files = Files(project_root(environment(), Path(where)), guard=guard)
    top = files.place(where)
    assert isinstance(top, Inside), "a project's root contains its directories"
    return files, top


def _inside(files: Files, top: Inside, path: str) -> Inside:
    """Resolve a path in the directory. Raises `NoFile` for one outside, as if it did not exist."""
    place = files.place(f"./{path}" if path.startswith("~") else path, top.path)
    if not isinstance(place, Inside) or place.parts[: len(top.parts)] != top.parts:
        raise NoFile(path)
    return place


_PATH = Param("path", "Path relative to the directory")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/file",
        handler=listed,
        access="token",
        summary="List a folder",
        query=(DIRECTORY, _PATH),
        headers=(DIRECTED,),
        answer=tuple[FileNode, ...],
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path="/file/content",
        handler=content,
        access="token",
        summary="Read a file",
        query=(DIRECTORY, _PATH),
        headers=(DIRECTED,),
        answer=FileContent,
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path="/find/file",
        handler=found_files,
        access="token",
        summary="Find files and folders by a fuzzy path, best match first",
        query=(
            DIRECTORY,
            Param("query", "Characters of the path; empty: the last changed files", most=LONGEST_QUERY),
            Param("type", "Only files or only folders", choices=("file", "directory")),
            Param("dirs", "Include folders; default true", "boolean"),
            Param("limit", f"Max results; default {FEW_NAMES}", "integer", least=1, most=MOST_NAMES),
        ),
        headers=(DIRECTED,),
        answer=tuple[str, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/find",
        handler=found_lines,
        access="token",
        summary="Search lines by a regular expression (Python syntax)",
        query=(DIRECTORY, Param("pattern", "The regular expression", least=1, most=LONGEST)),
        headers=(DIRECTED,),
        answer=tuple[FoundLine, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/find/symbol",
        handler=nothing,
        access="token",
        summary="Find symbols (always empty)",
        answer=tuple[str, ...],
    ),
)
