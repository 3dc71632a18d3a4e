"""`/vcs`: what git knows of a directory."""

import asyncio
from pathlib import Path

from msgspec import field

from asyncagents.config.trust import project_root
from asyncagents.domain.shape import Shape
from asyncagents.server.given import DIRECTED, DIRECTORY, directory
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.place import environment
from asyncagents.server.route import Route, Site
from asyncagents.tools.git_head import branch_of, default_branch_of, find_repository


class Branches(Shape, frozen=True, kw_only=True):
    branch: str | None = None
    default_branch: str | None = field(default=None, name="default_branch")


async def get(site: Site, request: Request) -> Answer:
    where = Path(directory(site, request))
    async with site.errands:
        return shown(await asyncio.to_thread(_branches, where))


def _branches(where: Path) -> Branches:
    repository = find_repository(project_root(environment(), where))
    if repository is None:
        return Branches()
    return Branches(branch=branch_of(repository), default_branch=default_branch_of(repository))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/vcs",
        handler=get,
        access="token",
        summary="The branch that is checked out, and the usual one",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Branches,
        statuses=(400,),
    ),
)
