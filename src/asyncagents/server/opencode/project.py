"""`/project` and `/path`: projects of this server, and its paths."""

import os
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from asyncagents.config.paths import config_folder, data_folder
from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.session import Session, project_id
from asyncagents.domain.shape import Shape
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.server.blocking import program_path
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.workplace import environment
from asyncagents.server.params import directory, path_id
from asyncagents.server.route import Routes, ServerContext
from asyncagents.tools.git.changes import init_repository

routes = Routes()

NOTES_FILE = "projects.json"
MOST_PROJECTS = 1_000

ShortText = Annotated[str, Meta(max_length=200)]
ImageUrl = Annotated[str, Meta(max_length=20_000)]


class ProjectIcon(Shape, frozen=True, kw_only=True):
    url: ImageUrl | None = None
    override: ImageUrl | None = None
    color: ShortText | None = None


class ProjectCommands(Shape, frozen=True, kw_only=True):
    start: Annotated[str, Meta(max_length=4_000)] | None = None


class ProjectNote(Shape, frozen=True, kw_only=True):
    name: ShortText | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


def read_notes(data: Path | None) -> dict[str, ProjectNote]:
    """Read all notes, by project id."""
    try:
        raw = (data / NOTES_FILE).read_bytes() if data is not None else b"{}"
        return msgspec.json.decode(raw, type=dict[str, ProjectNote])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise Conflict(
            f"{NOTES_FILE} in the server's data directory cannot be read: repair or remove it"
        ) from error


def save_note(data: Path | None, project_id: str, new: ProjectNote) -> ProjectNote:
    """Merge new fields into the note of a project; fields that are None keep their values."""
    notes = read_notes(data)
    known = notes.get(project_id, ProjectNote())
    changes = {
        name: value for name in ProjectNote.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    notes[project_id] = msgspec.structs.replace(known, **changes)
    if data is None or len(notes) > MOST_PROJECTS:
        raise Conflict(f"too many project notes: at most {MOST_PROJECTS}; remove some from {NOTES_FILE}")
    _write_notes(data / NOTES_FILE, msgspec.json.encode(notes))
    return notes[project_id]


def _write_notes(file: Path, content: bytes) -> None:
    """Replace the file atomically, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as draft:
            draft.write(content)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


MOST_SESSIONS = 1_000
"""Newest sessions whose directories are listed."""


class ProjectTime(Shape, frozen=True, kw_only=True):
    """In ms since the epoch."""

    created: int
    updated: int


class ProjectInfo(Shape, frozen=True, kw_only=True):
    id: str
    worktree: str
    time: ProjectTime
    sandboxes: tuple[str, ...]
    vcs: Literal["git"] | None = None
    name: str | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


class ServerPaths(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Whereabouts"
    home: str
    state: str
    config: str
    worktree: str
    directory: str


class ProjectDirectory(Shape, frozen=True, kw_only=True):
    directory: str


@routes.get("/path", access="token", directory=True, response=ServerPaths)
async def get_paths(server: ServerContext, request: Request) -> Response:
    """Get paths on the server's machine."""
    where = directory(server, request)
    return json_response(await server.blocking.run(partial(_server_paths, where, server.blocking.data)))


def _server_paths(where: str, data: Path | None) -> ServerPaths:
    here = environment()
    return ServerPaths(
        home=str(here.home),
        state=str(data or data_folder(here, None)[0]),
        config=str(config_folder(here, "asyncagents")),
        worktree=str(project_root(here, Path(where))),
        directory=where,
    )


@routes.get("/project", access="token", directory=True, response=tuple[ProjectInfo, ...])
async def list_projects(server: ServerContext, request: Request) -> Response:
    """List projects: directories that have sessions.

    Includes the request's directory, even if it has no sessions yet."""
    sessions = await _sessions(server)
    return json_response(await _projects(server, _directories(server, request, sessions), sessions))


@routes.get("/project/current", access="token", directory=True, response=ProjectInfo)
async def current_project(server: ServerContext, request: Request) -> Response:
    """Get the project of a directory."""
    where = directory(server, request)
    async with server.heavy_reads:
        sessions = await server.runtime.roots(where, limit=100)
    return json_response((await _projects(server, [where], sessions))[0])


@routes.get(
    "/project/{id}/directories", access="token", directory=True, response=tuple[ProjectDirectory, ...]
)
async def directories(server: ServerContext, request: Request) -> Response:
    """List the directories of a project."""
    return json_response([ProjectDirectory(directory=await _project_directory(server, request))])


@routes.patch(
    "/project/{id}", access="token", directory=True, body=ProjectNote, response=ProjectInfo, statuses=(409,)
)
async def update_project(server: ServerContext, request: Request) -> Response:
    """Set the name, icon or start command of a project.

    Fields that are not given keep their values."""
    new = read_body(request, ProjectNote)
    place = await _project_directory(server, request)
    async with server.blocking.write_lock:
        await server.blocking.run(partial(save_note, server.blocking.data, project_id(place), new))
    return json_response((await _projects(server, [place], await server.runtime.roots(place, limit=100)))[0])


@routes.post("/project/git/init", access="token", directory=True, response=ProjectInfo)
async def git_init(server: ServerContext, request: Request) -> Response:
    """Initialize a git repository in a directory.

    Does nothing if the directory is in a git repository already."""
    await server.blocking.run(partial(_git_init, Path(directory(server, request))))
    return await current_project(server, request)


def _git_init(where: Path) -> None:
    if (project_root(environment(), where) / ".git").exists():
        return
    found = program_path("git", where)
    if found is None or not where.is_dir():
        raise InvalidInput(
            "git is not installed on the server" if found is None else f"there is no directory {where}"
        )
    init_repository(found, where, environment().home)


async def _project_directory(server: ServerContext, request: Request) -> str:
    """Return the directory of the project in the request path. Raises `NotFound`."""
    wanted = path_id(request, "id", "project")
    for each in _directories(server, request, await _sessions(server)):
        if project_id(each) == wanted:
            return each
    raise NotFound("project", wanted)


async def _sessions(server: ServerContext) -> tuple[Session, ...]:
    async with server.heavy_reads:
        return await server.runtime.roots(None, limit=MOST_SESSIONS)


def _directories(server: ServerContext, request: Request, sessions: Iterable[Session]) -> list[str]:
    here = (directory(server, request), server.directory)
    return list(dict.fromkeys((*here, *(each.directory for each in sessions))))


async def _projects(
    server: ServerContext, places: list[str], sessions: Iterable[Session]
) -> list[ProjectInfo]:
    times: dict[str, ProjectTime] = {}
    for each in sessions:
        known = times.get(each.directory)
        times[each.directory] = ProjectTime(
            created=min(known.created if known else each.time.created, each.time.created),
            updated=max(known.updated if known else 0, each.time.updated),
        )
    new = ProjectTime(created=server.started, updated=server.started)
    roots = await server.blocking.run(partial(_roots, places))
    notes = await server.blocking.run(partial(read_notes, server.blocking.data))
    projects = []
    for place, (root, has_git) in zip(places, roots, strict=True):
        note = notes.get(project_id(place), ProjectNote())
        projects.append(
            ProjectInfo(
                id=project_id(place),
                worktree=root,
                time=times.get(place, new),
                sandboxes=(),
                vcs="git" if has_git else None,
                name=note.name,
                icon=note.icon,
                commands=note.commands,
            )
        )
    return projects


def _roots(places: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the worktree root of each directory, and whether it is a git repository."""
    here = environment()
    roots = [str(project_root(here, Path(place))) for place in places]
    return [(root, os.path.lexists(os.path.join(root, ".git"))) for root in roots]
