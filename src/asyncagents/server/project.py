"""`/project` and `/path`: the directories that this server has worked in, and where things lie."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from asyncagents.config.place import config_folder, data_folder
from asyncagents.config.trust import project_root
from asyncagents.domain.session import Session, project_id
from asyncagents.domain.shape import Shape
from asyncagents.errors import NotFound
from asyncagents.server.given import DIRECTED, DIRECTORY, directory, path_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.place import environment
from asyncagents.server.route import Route, Site

MOST_SESSIONS = 1_000
"""So many of the newest are asked where they worked."""


class ProjectTime(Shape, frozen=True, kw_only=True):
    """In ms since the epoch."""

    created: int
    updated: int


class Project(Shape, frozen=True, kw_only=True):
    id: str
    worktree: str
    time: ProjectTime
    sandboxes: tuple[str, ...]
    vcs: Literal["git"] | None = None


class Where(Shape, frozen=True, kw_only=True):
    home: str
    state: str
    config: str
    worktree: str
    directory: str


class Directory(Shape, frozen=True, kw_only=True):
    directory: str


async def current(site: Site, request: Request) -> Answer:
    where = directory(site, request)
    async with site.looks:
        sessions = await site.runtime.roots(where, limit=100)
    return shown((await _projects(site, [where], sessions))[0])


async def listed(site: Site, request: Request) -> Answer:
    """Also the one that the request is about, if nobody worked there yet."""
    sessions = await _sessions(site)
    return shown(await _projects(site, _directories(site, request, sessions), sessions))


async def directories(site: Site, request: Request) -> Answer:
    wanted = path_id(request, "id", "project")
    found = [
        each for each in _directories(site, request, await _sessions(site)) if project_id(each) == wanted
    ]
    if not found:
        raise NotFound("project", wanted)
    return shown([Directory(directory=each) for each in found])


async def _sessions(site: Site) -> tuple[Session, ...]:
    async with site.looks:
        return await site.runtime.roots(None, limit=MOST_SESSIONS)


def _directories(site: Site, request: Request, sessions: Iterable[Session]) -> list[str]:
    here = (directory(site, request), site.directory)
    return list(dict.fromkeys((*here, *(each.directory for each in sessions))))


async def _projects(site: Site, places: list[str], sessions: Iterable[Session]) -> list[Project]:
    times: dict[str, ProjectTime] = {}
    for each in sessions:
        known = times.get(each.directory)
        times[each.directory] = ProjectTime(
            created=min(known.created if known else each.time.created, each.time.created),
            updated=max(known.updated if known else 0, each.time.updated),
        )
    new = ProjectTime(created=site.started, updated=site.started)
    roots = await site.errands.run(partial(_roots, places))
    return [
        Project(
            id=project_id(place),
            worktree=root,
            time=times.get(place, new),
            sandboxes=(),
            vcs="git" if has_git else None,
        )
        for place, (root, has_git) in zip(places, roots, strict=True)
    ]


def _roots(places: Iterable[str]) -> list[tuple[str, bool]]:
    """Of each the root of its worktree, and whether git keeps it."""
    here = environment()
    roots = [str(project_root(here, Path(place))) for place in places]
    return [(root, os.path.lexists(os.path.join(root, ".git"))) for root in roots]


async def path(site: Site, request: Request) -> Answer:
    where = directory(site, request)
    return shown(await site.errands.run(partial(_where, where, site.errands.data)))


def _where(where: str, data: Path | None) -> Where:
    here = environment()
    return Where(
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
        summary="Where things lie on the server's machine",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Where,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project",
        handler=listed,
        access="token",
        summary="Directories in which sessions worked",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[Project, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project/current",
        handler=current,
        access="token",
        summary="The directory that is asked about",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Project,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/project/{id}/directories",
        handler=directories,
        access="token",
        summary="Where a project lies",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[Directory, ...],
        statuses=(400, 404),
    ),
)
