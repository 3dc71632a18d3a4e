"""`/config`: what the files of a directory say, in their own shape, without secrets."""

from pathlib import Path
from typing import Any

from asyncagents.config.told import told
from asyncagents.engine.project import Project
from asyncagents.server.given import DIRECTED, DIRECTORY
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.place import loaded, loaded_at, workplace
from asyncagents.server.route import Route, Site


async def get(site: Site, request: Request) -> Answer:
    """With the model that is asked if nobody says, whether a file names it or not."""
    said = told(await loaded(site, request))
    place = await workplace(site, request)
    ref = (place.default_model if isinstance(place, Project) else None) or site.runtime.defaults.model
    return shown({"model": f"{ref.provider_id}/{ref.model_id}", **said})


async def get_global(site: Site, request: Request) -> Answer:
    """What counts in every directory: as in one that has no files."""
    return shown(told(await loaded_at(site, Path("/"))))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/config",
        handler=get,
        access="token",
        summary="The configuration of a directory, in the shape of its files; secrets are stars",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=dict[str, Any],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/global/config",
        handler=get_global,
        access="token",
        summary="The configuration that counts everywhere",
        answer=dict[str, Any],
        statuses=(400,),
    ),
)
