"""The workplace and the config of the directory that a request names."""

from functools import partial
from pathlib import Path

from asyncagents.config.env import Environment, system_environment
from asyncagents.config.load import LoadedConfig, load_config
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.engine.workplace.project import Project
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.server.http.messages import Request
from asyncagents.server.params import directory
from asyncagents.server.route import ServerContext
from asyncagents.tools.guard.place_guard import UNGUARDED, PlaceGuard
from asyncagents.tools.project.prompt_sources import ProjectPromptSources


async def request_workplace(server: ServerContext, request: Request) -> Workplace:
    """Return the workplace of the request's directory. Raises `InvalidInput` naming an invalid file."""
    try:
        return await server.runtime.workplace(directory(server, request))
    except ConfigError as error:
        raise InvalidInput(str(error)) from error


async def default_agent_rules(server: ServerContext, request: Request) -> tuple[Rule, ...]:
    """Return the rules of the directory's default agent."""
    workplace = await request_workplace(server, request)
    return workplace.agents.default().layers.rules if isinstance(workplace, Project) else default_rules()


async def place_guard(server: ServerContext, request: Request) -> PlaceGuard:
    """Return the place guard of the directory's file tools."""
    workplace = await request_workplace(server, request)
    sources = workplace.prompt_sources if isinstance(workplace, Project) else None
    return sources.io.files.guard if isinstance(sources, ProjectPromptSources) else UNGUARDED


async def load_directory_config(server: ServerContext, request: Request) -> LoadedConfig:
    """Load the config of the request's directory anew. Raises `InvalidInput`."""
    return await load_config_at(server, Path(directory(server, request)))


async def load_config_at(server: ServerContext, place: Path) -> LoadedConfig:
    try:
        return await server.blocking.run(partial(_load, place))
    except ConfigError as error:
        raise InvalidInput(str(error)) from error


def _load(place: Path) -> LoadedConfig:
    return load_config(system_environment(), directory=place)


def environment() -> Environment:
    return system_environment()
