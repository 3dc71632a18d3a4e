"""`/project` and `/path`: projects of this server, and its paths."""

import os
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from asyncagents.config.paths import config_folder, data_folder
from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.session import Session, project_id
from asyncagents.domain.shape import Shape
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.server.blocking import program
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.workplace import environment
from asyncagents.server.params import DIRECTED, DIRECTORY, directory, path_id
from asyncagents.server.route import Route, Site
from asyncagents.tools.git.changes import begin_repository

FILE = "projects.json"
MOST = 1_000

Line = Annotated[str, Meta(max_length=200)]
Picture = Annotated[str, Meta(max_length=20_000)]


class ProjectIcon(Shape, frozen=True, kw_only=True):
    url: Picture | None = None
    override: Picture | None = None
    color: Line | None = None


class ProjectCommands(Shape, frozen=True, kw_only=True):
    start: Annotated[str, Meta(max_length=4_000)] | None = None


class ProjectNote(Shape, frozen=True, kw_only=True):
    name: Line | None = None
    icon: ProjectIcon | None = None
    commands: ProjectCommands | None = None


def read_notes(data: Path | None) -> dict[str, ProjectNote]:
    """Read all notes, by project id."""
    try:
        raw = (data / FILE).read_bytes() if data is not None else b"{}"
        return msgspec.json.decode(raw, type=dict[str, ProjectNote])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise Conflict(
            f"{FILE} in the server's data directory cannot be read: repair or remove it"
        ) from error


def note(data: Path | None, project_id: str, new: ProjectNote) -> ProjectNote:
    """Merge new fields into the note of a project; fields that are None keep their values."""
    notes = read_notes(data)
    known = notes.get(project_id, ProjectNote())
    said = {
        name: value for name in ProjectNote.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    notes[project_id] = msgspec.structs.replace(known, **said)
    if data is None or len(notes) > MOST:
        raise Conflict(f"too many project notes: at most {MOST}; remove some from {FILE}")
    _write(data / FILE, msgspec.json.encode(notes))
    return notes[project_id]


def _write(file: Path, content: bytes) -> None:
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


class Whereabouts(Shape, frozen=True, kw_only=True):
    home: str
    state: str
    config: str
    worktree: str
    directory: str


class ProjectDirectory(Shape, frozen=True, kw_only=True):
    directory: str


async def current(site: Site, request: Request) -> Answer:
    where = directory(site, request)
    async with site.looks:
        sessions = await site.runtime.roots(where, limit=100)
    return shown((await _projects(site, [where], sessions))[0])


async def listed(site: Site, request: Request) -> Answer:
    """Includes the request's directory, even if it has no sessions yet."""
    sessions = await _sessions(site)
    return shown(await _projects(site, _directories(site, request, sessions), sessions))


async def directories(site: Site, request: Request) -> Answer:
    return shown([ProjectDirectory(directory=await _wanted(site, request))])


async def noted(site: Site, request: Request) -> Answer:
    """Fields that are not given keep their values."""
    new = read(request, ProjectNote)
    place = await _wanted(site, request)
    async with site.errands.writing:
        await site.errands.run(partial(note, site.errands.data, project_id(place), new))
    return shown((await _projects(site, [place], await site.runtime.roots(place, limit=100)))[0])


async def git_init(site: Site, request: Request) -> Answer:
    """Does nothing if the directory is in a git repository already."""
    await site.errands.run(partial(_git_init, Path(directory(site, request))))
    return await current(site, request)


def _git_init(where: Path) -> None:
    if (project_root(environment(), where) / ".git").exists():
        return
    found = program("git", where)
    if found is None or not where.is_dir():
        raise InvalidInput(
            "git is not installed on the server" if found is None else f"there is no directory {where}"
        )
    begin_repository(found, where, environment().home)


async def _wanted(site: Site, request: Request) -> str:
    """Return the directory of the project in the request path. Raises `NotFound`."""
    wanted = path_id(request, "id", "project")
    for each in _directories(site, request, await _sessions(site)):
        if project_id(each) == wanted:
            return each
    raise NotFound("project", wanted)


async def _sessions(site: Site) -> tuple[Session, ...]:
    async with site.looks:
        return await site.runtime.roots(None, limit=MOST_SESSIONS)


def _directories(site: Site, request: Request, sessions: Iterable[Session]) -> list[str]:
    here = (directory(site, request), site.directory)
    return list(dict.fromkeys((*here, *(each.directory for each in sessions))))


async def _projects(site: Site, places: list[str], sessions: Iterable[Session]) -> list[ProjectInfo]:
    times: dict[str, ProjectTime] = {}
    for each in sessions:
        known = times.get(each.directory)
        times[each.directory] = ProjectTime(
            created=min(known.created if known else each.time.created, each.time.created),
            updated=max(known.updated if known else 0, each.time.updated),
        )
    new = ProjectTime(created=site.started, updated=site.started)
    roots = await site.errands.run(partial(_roots, places))
    notes = await site.errands.run(partial(read_notes, site.errands.data))
    projects = []
    for place, (root, has_git) in zip(places, roots, strict=True):
        said = notes.get(project_id(place), ProjectNote())
        projects.append(
            ProjectInfo(
                id=project_id(place),
                worktree=root,
                time=times.get(place, new),
                sandboxes=(),
                vcs="git" if has_git else None,
                name=said.name,
                icon=said.icon,
                commands=said.commands,
            )
        )
    return projects


def _roots(places: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the worktree root of each directory, and whether it is a git repository."""
    here = environment()
    roots = [str(project_root(here, Path(place))) for place in places]
    return [(root, os.path.lexists(os.path.join(root, ".git"))) for root in roots]


async def path(site: Site, request: Request) -> Answer:
    where = directory(site, request)
    return shown(await site.errands.run(partial(_where, where, site.errands.data)))


def _where(where: str, data: Path | None) -> Whereabouts:
    here = environment()
    return Whereabouts(
        home=str(here.home),
        state=str(data or data_folder(here, None)[0]),
        config=str(config_folder(here, "asyncagents")),
        worktree=str(project_root(here, Path(where))),
        directory=where,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/path",
        handler=path,
        access="token",
        summary="Get paths on the server's machine",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Whereabouts,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project",
        handler=listed,
        access="token",
        summary="List projects: directories that have sessions",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[ProjectInfo, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project/current",
        handler=current,
        access="token",
        summary="Get the project of a directory",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=ProjectInfo,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project/{id}/directories",
        handler=directories,
        access="token",
        summary="List the directories of a project",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[ProjectDirectory, ...],
        statuses=(400, 404),
    ),
    Route(
        method="PATCH",
        path="/project/{id}",
        handler=noted,
        access="token",
        summary="Set the name, icon or start command of a project",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        body=ProjectNote,
        answer=ProjectInfo,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/project/git/init",
        handler=git_init,
        access="token",
        summary="Initialize a git repository in a directory",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=ProjectInfo,
        statuses=(400,),
    ),
)
