"""`/api/fs/find`: file suggestions of OpenCode's terminal UI for a mention (`@path`)."""

from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.shape import Shape
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.file import LONGEST_QUERY, MOST_NAMES, find_names
from asyncagents.server.opencode.workplace import environment
from asyncagents.server.params import directory, parse_directory, query_text
from asyncagents.server.route import DIRECTORY_HEADER_PARAM, DIRECTORY_PARAM, Param, Routes, ServerContext

routes = Routes()

LOCATION_PARAM = "location[directory]"


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


class MentionCandidates(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "Mentioned"
    location: Location
    data: tuple[FoundName, ...]


@routes.get(
    "/api/fs/find",
    access="token",
    query=(
        Param(LOCATION_PARAM, "The directory to search"),
        DIRECTORY_PARAM,
        Param("query", "Characters of the path", most=LONGEST_QUERY),
        Param("type", "Only files or only folders", choices=("file", "directory")),
        Param("limit", "Max results; default 10", "integer", least=1, most=MOST_NAMES),
    ),
    headers=(DIRECTORY_HEADER_PARAM,),
    response=MentionCandidates,
)
async def find_mentions(server: ServerContext, request: Request) -> Response:
    """Find files and folders for a mention.

    `location[directory]` takes precedence over `directory`: the session may work elsewhere."""
    given = query_text(request, LOCATION_PARAM)
    where = parse_directory(given) if given else directory(server, request)
    names = await find_names(server, request, where)
    root = await server.blocking.run(partial(_root, where))
    project = LocationProject(id=project_id(where), directory=root)
    found = [FoundName(path=name, type="directory" if name.endswith("/") else "file") for name in names]
    return json_response(
        MentionCandidates(location=Location(directory=where, project=project), data=tuple(found))
    )


def _root(where: str) -> str:
    return str(project_root(environment(), Path(where)))
