"""`/config`: reading and changing the config of a directory, without secrets."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from asyncagents.config.load import Loaded
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.redacted_settings import ALWAYS, told
from asyncagents.config.write import change_global, change_project
from asyncagents.engine.workplace.agents import Agents
from asyncagents.engine.workplace.project import Project
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.llm.alias import find_alias
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.workplace import environment, loaded, loaded_at, workplace
from asyncagents.server.params import DIRECTED, DIRECTORY, directory
from asyncagents.server.route import Route, Site

NO_FILES = "this server is configured by a program, not by files: change it in the program"


async def get(site: Site, request: Request) -> Answer:
    """Includes the default model, even if no file names it."""
    place = await workplace(site, request)
    defaults = site.runtime.defaults
    ref = place.default_model or (defaults.model if defaults.missing is None else None)
    said = told(await loaded(site, request)) if _from_files(place) else dict(ALWAYS)
    return shown(said if ref is None else {"model": f"{ref.provider_id}/{ref.model_id}", **said})


def _from_files(place: Workplace) -> bool:
    return isinstance(place, Project) and place.from_files


async def patch(site: Site, request: Request) -> Answer:
    """Reloads the directory's files and ends its event streams, so that clients reload."""
    where, change = directory(site, request), await _change(site, request)
    verify = partial(_verify, Path(where))
    await _changed(site, partial(change_project, environment(), Path(where), change, verify))
    site.runtime.instances.dispose(where)
    return await get(site, request)


async def patch_global(site: Site, request: Request) -> Answer:
    change = await _change(site, request)
    await _changed(site, partial(change_global, environment(), change, partial(_verify, Path("/"))))
    site.runtime.instances.dispose_all()
    return await get_global(site, request)


async def _change(site: Site, request: Request) -> dict[str, Any]:
    change = read(request, dict[str, Any])
    if not _from_files(await workplace(site, request)):
        raise InvalidInput(NO_FILES)
    return {key: value for key, value in change.items() if key != "$schema"}


async def _changed(site: Site, work: Callable[[], Loaded]) -> None:
    async with site.errands.writing:
        try:
            await site.errands.run(work)
        except ConfigError as error:
            raise InvalidInput(str(error)) from error


def _verify(where: Path, loaded: Loaded) -> None:
    """Raise `ConfigError` if the changed config has invalid agents or no default agent."""
    here = environment()
    Agents(
        loaded.config,
        find_agents(here, where, trusted=loaded.trusted, alias=partial(find_alias, loaded.config)),
        home=str(here.home),
    )


async def get_global(site: Site, request: Request) -> Answer:
    """The config that applies in a directory without files of its own."""
    return shown(told(await loaded_at(site, Path("/"))))


_BODY = "Change keys of the config in {}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/config",
        handler=get,
        access="token",
        summary="Get the config of a directory; secrets are masked",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=dict[str, Any],
        statuses=(400,),
    ),
    Route(
        method="PATCH",
        path="/config",
        handler=patch,
        access="token",
        summary=_BODY.format("a file of the directory; ineffective keys are refused"),
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        body=dict[str, Any],
        answer=dict[str, Any],
        statuses=(400,),
    ),
    Route(
        method="PATCH",
        path="/global/config",
        handler=patch_global,
        access="token",
        summary=_BODY.format("the global file; ineffective keys are refused"),
        body=dict[str, Any],
        answer=dict[str, Any],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/global/config",
        handler=get_global,
        access="token",
        summary="Get the global config",
        answer=dict[str, Any],
        statuses=(400,),
    ),
)
