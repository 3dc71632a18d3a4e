"""`/api/fs/find`: file suggestions of OpenCode's terminal UI for a mention (`@path`)."""

from functools import partial
from pathlib import Path
from typing import Literal

from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.shape import Shape
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.file import LONGEST_QUERY, MOST_NAMES, names_like
from asyncagents.server.opencode.workplace import environment
from asyncagents.server.params import DIRECTED, DIRECTORY, a_directory, directory, one
from asyncagents.server.route import Param, Route, Site

PLACE = "location[directory]"


class FoundName(Shape, frozen=True, kw_only=True):
    """`path`: relative to the directory; that of a folder ends with a slash."""

    path: str
    type: Literal["file", "directory"]


class LocationProject(Shape, frozen=True, kw_only=True):
    id: str
    directory: str


class Location(Shape, frozen=True, kw_only=True):
    directory: str
    project: LocationProject


class Mentioned(Shape, frozen=True, kw_only=True):
    location: Location
    data: tuple[FoundName, ...]


async def mentioned(site: Site, request: Request) -> Answer:
    """`location[directory]` takes precedence over `directory`: the session may work elsewhere."""
    given = one(request, PLACE)
    where = a_directory(given) if given else directory(site, request)
    names = await names_like(site, request, where)
    root = await site.errands.run(partial(_root, where))
    project = LocationProject(id=project_id(where), directory=root)
    found = [FoundName(path=name, type="directory" if name.endswith("/") else "file") for name in names]
    return shown(Mentioned(location=Location(directory=where, project=project), data=tuple(found)))


def _root(where: str) -> str:
    return str(project_root(environment(), Path(where)))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/fs/find",
        handler=mentioned,
        access="token",
        summary="Find files and folders for a mention",
        query=(
            Param(PLACE, "The directory to search"),
            DIRECTORY,
            Param("query", "Characters of the path", most=LONGEST_QUERY),
            Param("type", "Only files or only folders", choices=("file", "directory")),
            Param("limit", "Max results; default 10", "integer", least=1, most=MOST_NAMES),
        ),
        headers=(DIRECTED,),
        answer=Mentioned,
        statuses=(400,),
    ),
)
