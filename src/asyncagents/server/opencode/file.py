"""`/file` and `/find`: listing, reading and searching files of a directory, never outside of it."""

from base64 import b64encode
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from threading import Event
from typing import Literal, assert_never

from msgspec import field

from asyncagents.config.trust import project_root
from asyncagents.domain.agent.permission import LineageRules, evaluate
from asyncagents.domain.call.result_file import mime_of
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.shape import Shape
from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.server.blocking import FileNames, NoFile
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.workplace import default_agent_rules, environment, place_guard
from asyncagents.server.params import directory, query_choice, query_flag, query_number, query_text
from asyncagents.server.route import Param, Routes, ServerContext
from asyncagents.tools.builtin.grep import MOST_PATTERN, SECONDS, search_lines
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.path import InsidePath
from asyncagents.tools.file.text import is_binary
from asyncagents.tools.git.index import TrackedFiles
from asyncagents.tools.guard.place_guard import UNGUARDED, PlaceGuard
from asyncagents.tools.search.fuzzy import best_matches
from asyncagents.tools.search.gitignore import IgnoreRules
from asyncagents.tools.search.grep import GrepSearch
from asyncagents.tools.search.walk import rules_above, rules_in, walk

routes = Routes()

MOST_NAMES, DEFAULT_NAMES = 200, 10
MOST_LISTED = 10_000
LONGEST_QUERY = 1_000
MOST_SHOWN = 10 * 1024 * 1024
MOST_WALKED = 200_000
WALK_MS, RULE_MS = 30_000, 5_000
"""Time limits of a walk and of the gitignore rules; after them the result is partial."""
_PATH = Param("path", "Path relative to the directory")


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


@routes.get(
    "/file", access="token", directory=True, query=(_PATH,), response=tuple[FileNode, ...], statuses=(404,)
)
async def list_files(server: ServerContext, request: Request) -> Response:
    """List a folder."""
    where, path = directory(server, request), query_text(request, "path") or "."
    return json_response(await server.blocking.run(partial(_list_files, server.clock, where, path)))


def _list_files(clock: Clock, where: str, path: str) -> list[FileNode]:
    """List a folder: subfolders first, then by name. Links and devices are omitted."""
    files, top = _open_project(where)
    place = _path_inside(files, top, path)
    below = place.parts[len(top.parts) :]
    ignoring = IgnoreRules((*rules_above(files, place), *rules_in(files, place)))
    tracked = TrackedFiles(place)
    entries, until = files.list_folder(place), clock.now() + RULE_MS
    plain = files.modified_times(place, [entry.name for entry in entries if not entry.folder])
    nodes = [
        FileNode(
            name=replace_surrogates(entry.name),
            path=replace_surrogates("/".join((*below, entry.name)) + ("/" if entry.folder else "")),
            absolute=replace_surrogates(f"{place.path.rstrip('/')}/{entry.name}"),
            type="directory" if entry.folder else "file",
            ignored=clock.now() < until
            and ignoring.ignores(parts := (*place.parts, entry.name), folder=entry.folder)
            and not tracked.holds(parts, folder=entry.folder),
        )
        for entry in entries
        if entry.folder or entry.name in plain
    ]
    return sorted(nodes, key=lambda node: (node.type == "file", node.name))[:MOST_LISTED]


@routes.get(
    "/file/content", access="token", directory=True, query=(_PATH,), response=FileContent, statuses=(404,)
)
async def get_content(server: ServerContext, request: Request) -> Response:
    """Read a file."""
    path = query_text(request, "path")
    if not path:
        raise InvalidInput("path is required: a file relative to the directory, such as path=src/main.py")
    rules, guard = await default_agent_rules(server, request), await place_guard(server, request)
    return json_response(
        await server.blocking.run(partial(_read_content, directory(server, request), path, rules, guard))
    )


def _read_content(where: str, path: str, rules: tuple[Rule, ...], guard: PlaceGuard) -> FileContent:
    """Read a file. A path whose rule is "ask" is readable here (the token holder would be asked anyway);
    "deny" is refused, and so are sealed places."""
    files, top = _open_project(where, guard)
    place = _path_inside(files, top, path)
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


@routes.get(
    "/find/file",
    access="token",
    directory=True,
    query=(
        Param("query", "Characters of the path; empty: the last changed files", most=LONGEST_QUERY),
        Param("type", "Only files or only folders", choices=("file", "directory")),
        Param("dirs", "Include folders; default true", "boolean"),
        Param("limit", f"Max results; default {DEFAULT_NAMES}", "integer", least=1, most=MOST_NAMES),
    ),
    response=tuple[str, ...],
)
async def find_files(server: ServerContext, request: Request) -> Response:
    """Find files and folders by a fuzzy path, best match first."""
    return json_response(await find_names(server, request, directory(server, request)))


async def find_names(server: ServerContext, request: Request, where: str) -> list[str]:
    """Find paths below a directory by the query of the request; those of folders end with a slash."""
    query = query_text(request, "query") or ""
    if len(query) > LONGEST_QUERY:
        raise InvalidInput(f"query is too long: at most {LONGEST_QUERY} characters")
    kinds: tuple[Literal["file", "directory"], ...] = ("file", "directory")
    kind = query_choice(request, "type", kinds)
    if kind is None and not query_flag(request, "dirs", default=True):
        kind = "file"
    limit = query_number(request, "limit", default=DEFAULT_NAMES, most=MOST_NAMES)
    names = await server.file_index.names(server.blocking, where, partial(_walk_names, server.clock))
    return list(await server.blocking.run(lambda: best_matches(query, _names_of_kind(names, kind), limit)))


def _walk_names(clock: Clock, where: str, left: Event) -> FileNames:
    """Collect the names of files and folders, without those that git ignores."""
    files, top = _open_project(where)
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
    return FileNames(
        files=tuple(replace_surrogates("/".join(parts)) for parts in found),
        folders=tuple(replace_surrogates(f"{'/'.join(parts)}/") for parts in sorted(folders)),
    )


def _names_of_kind(names: FileNames, kind: Literal["file", "directory"] | None) -> tuple[str, ...]:
    match kind:
        case "file":
            return names.files
        case "directory":
            return names.folders
        case None:
            return names.files + names.folders
        case _:
            assert_never(kind)


@routes.get(
    "/find",
    access="token",
    directory=True,
    query=(Param("pattern", "The regular expression", least=1, most=MOST_PATTERN),),
    response=tuple[FoundLine, ...],
)
async def find_lines(server: ServerContext, request: Request) -> Response:
    """Search lines by a regular expression (Python syntax).

    Searches as the tool `grep` does: files that need a permission to be read are skipped."""
    pattern = query_text(request, "pattern")
    if not pattern or len(pattern) > MOST_PATTERN:
        raise InvalidInput(f"pattern is required: a regular expression of up to {MOST_PATTERN} characters")
    guard = await place_guard(server, request)
    files, top = await server.blocking.run(partial(_open_project, directory(server, request), guard))
    search = GrepSearch(
        root=files.root,
        place=top,
        pattern=pattern,
        rules=LineageRules.from_rules(await default_agent_rules(server, request)),
        guarded=guard.unreadable_around(top.path),
        hits=True,
    )
    try:
        result = await search_lines(server.blocking.processes, search, SECONDS)
    except ToolError as error:
        raise InvalidInput(str(error)) from error
    return json_response(
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
            for match in result.matches
        ]
    )


@routes.get("/find/symbol", access="token", response=tuple[str, ...])
async def find_symbols(server: ServerContext, request: Request) -> Response:
    """Find symbols (always empty)."""
    return json_response([])


def _open_project(where: str, guard: PlaceGuard = UNGUARDED) -> tuple[Files, InsidePath]:
    """Open the files of the directory's project, and locate the directory in it."""
    files = Files(project_root(environment(), Path(where)), guard=guard)
    top = files.resolve(where)
    assert isinstance(top, InsidePath), "a project's root contains its directories"
    return files, top


def _path_inside(files: Files, top: InsidePath, path: str) -> InsidePath:
    """Resolve a path in the directory. Raises `NoFile` for one outside, as if it did not exist."""
    place = files.resolve(f"./{path}" if path.startswith("~") else path, top.path)
    if not isinstance(place, InsidePath) or place.parts[: len(top.parts)] != top.parts:
        raise NoFile(path)
    return place
