"""`/config`: reading and changing the config of a directory, without secrets."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from asyncagents.config.load import LoadedConfig
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.redacted_settings import REQUIRED_KEYS, redacted_settings
from asyncagents.config.write import change_global_config, change_project_config
from asyncagents.engine.workplace.agents import Agents
from asyncagents.engine.workplace.project import Project
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.llm.alias import find_alias
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.workplace import (
    environment,
    load_config_at,
    load_directory_config,
    request_workplace,
)
from asyncagents.server.params import directory
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

NO_FILES = "this server is configured by a program, not by files: change it in the program"


@routes.get("/config", access="token", directory=True, response=dict[str, Any])
async def get(server: ServerContext, request: Request) -> Response:
    """Get the config of a directory; secrets are masked.

    Includes the default model, even if no file names it."""
    workplace = await request_workplace(server, request)
    defaults = server.runtime.defaults
    ref = workplace.default_model or (defaults.model if defaults.missing is None else None)
    settings = (
        redacted_settings(await load_directory_config(server, request))
        if _is_from_files(workplace)
        else dict(REQUIRED_KEYS)
    )
    return json_response(
        settings if ref is None else {"model": f"{ref.provider_id}/{ref.model_id}", **settings}
    )


def _is_from_files(workplace: Workplace) -> bool:
    return isinstance(workplace, Project) and workplace.from_files


@routes.patch("/config", access="token", directory=True, body=dict[str, Any], response=dict[str, Any])
async def patch(server: ServerContext, request: Request) -> Response:
    """Change keys of the config in a file of the directory; ineffective keys are refused.

    Reloads the directory's files and ends its event streams, so that clients reload."""
    where, change = directory(server, request), await _read_change(server, request)
    verify = partial(_check_agents, Path(where))
    await _apply_change(server, partial(change_project_config, environment(), Path(where), change, verify))
    server.runtime.instances.dispose(where)
    return await get(server, request)


@routes.patch("/global/config", access="token", body=dict[str, Any], response=dict[str, Any])
async def patch_global(server: ServerContext, request: Request) -> Response:
    """Change keys of the config in the global file; ineffective keys are refused."""
    change = await _read_change(server, request)
    await _apply_change(
        server, partial(change_global_config, environment(), change, partial(_check_agents, Path("/")))
    )
    server.runtime.instances.dispose_all()
    return await get_global(server, request)


async def _read_change(server: ServerContext, request: Request) -> dict[str, Any]:
    change = read_body(request, dict[str, Any])
    if not _is_from_files(await request_workplace(server, request)):
        raise InvalidInput(NO_FILES)
    return {key: value for key, value in change.items() if key != "$schema"}


async def _apply_change(server: ServerContext, work: Callable[[], LoadedConfig]) -> None:
    async with server.blocking.write_lock:
        try:
            await server.blocking.run(work)
        except ConfigError as error:
            raise InvalidInput(str(error)) from error


def _check_agents(where: Path, loaded: LoadedConfig) -> None:
    """Raise `ConfigError` if the changed config has invalid agents or no default agent."""
    here = environment()
    Agents(
        loaded.config,
        find_agents(here, where, trusted=loaded.trusted, alias=partial(find_alias, loaded.config)),
        home=str(here.home),
    )


@routes.get("/global/config", access="token", response=dict[str, Any])
async def get_global(server: ServerContext, request: Request) -> Response:
    """Get the global config.

    The config that applies in a directory without files of its own."""
    return json_response(redacted_settings(await load_config_at(server, Path("/"))))
