"""Runs a session in this process, and serves the HTTP API meanwhile with --api."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.cli.run.choose import AgentChoice, choose_agent_and_model
from asyncagents.cli.run.job import RunJob, run_with_signals
from asyncagents.cli.terminal.screen import Screen
from asyncagents.cli.terminal.signals import Signals
from asyncagents.config.api import api_config
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.load import load_config
from asyncagents.config.loaded_project import LoadedProject
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.paths import data_folder
from asyncagents.domain.conversation.session import Session
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import Conflict, NotTrusted
from asyncagents.llm.alias import find_alias
from asyncagents.server.discovery import ServerLock


class LocalProject(Struct, frozen=True):
    """Config and agents of the directory of a run."""

    config: Config
    agents: Agents
    files: LoadedProject
    """The files of the directory, for its first use by the runtime."""
    distrust: tuple[str, ...] = ()
    """Warnings about settings that are ignored because the project is not trusted."""


def load_project(arguments: RunArguments, screen: Screen) -> LocalProject:
    """Load config and agents of the directory, and print their warnings once."""
    environment, read_at = system_environment(), SystemClock().now()
    loaded = load_config(environment, directory=arguments.directory, data_dir=arguments.data_dir)
    alias = partial(find_alias, loaded.config)
    found = find_agents(environment, arguments.directory, trusted=loaded.trusted, alias=alias)
    distrust = (*loaded.distrust, *found.distrust)
    for warning in (*loaded.warnings, *found.all_warnings):
        if warning not in distrust:
            screen.warn(warning)
    agents = Agents(loaded.config, found, home=str(environment.home))
    files = LoadedProject(
        directory=str(arguments.directory),
        read_at=read_at,
        # Sandboxes protect the default data directory, too.
        config=replace(loaded.config, data_dir=data_folder(environment, None)[0]),
        trusted=loaded.trusted,
        agents=found,
    )
    return LocalProject(loaded.config, agents, files, distrust)


def choose_and_warn(
    project: LocalProject, arguments: RunArguments, session: Session | None, screen: Screen
) -> AgentChoice:
    """Choose agent and model, and print trust warnings, unless the error is about trust itself."""
    try:
        choice = choose_agent_and_model(project.config, project.agents, arguments, session)
    except NotTrusted:
        raise
    except Exception:
        _warn_untrusted(project, screen)
        raise
    _warn_untrusted(project, screen)
    return choice


def _warn_untrusted(project: LocalProject, screen: Screen) -> None:
    for warning in project.distrust:
        screen.warn(warning)


async def run_locally(arguments: RunArguments, project: LocalProject, screen: Screen) -> int:
    """Run in this process; return the exit code. Invalid arguments raise before anything is stored."""
    config = project.config
    choice = (
        choose_and_warn(project, arguments, None, screen)
        if arguments.has_prompt and not arguments.resumes
        else None
    )
    if not arguments.has_prompt:
        _warn_untrusted(project, screen)
    with Signals() as signals:
        async with (
            open_runtime(config.data_dir, config=config, coding=project.files, serve=False) as runtime,
            _serve_api(runtime, arguments, config.data_dir, screen),
        ):
            job = RunJob(
                runtime,
                arguments,
                lambda session: choose_and_warn(project, arguments, session, screen),
                screen=screen,
            )
            return await run_with_signals(job, signals, choice)


@asynccontextmanager
async def _serve_api(
    runtime: Runtime, arguments: RunArguments, data: Path, screen: Screen
) -> AsyncIterator[None]:
    """Serve the API from before the first tool runs; sessions of other runs are not served here."""
    api = api_config(system_environment())
    lock = _try_lock(data, screen) if arguments.api and api.enabled else None
    if lock is None:
        yield
        return
    from asyncagents.server.serve import ServerOptions, open_server  # start-up: only with --api

    port = arguments.port if arguments.port is not None else api.port
    server_options = ServerOptions(port=port, serves_all=False)
    try:
        async with open_server(
            runtime, data, server_options, directory=arguments.directory, lock=lock
        ) as listing:
            screen.note(f"listening at {listing.url}")
            yield
    finally:
        lock.close()


def _try_lock(data: Path, screen: Screen) -> ServerLock | None:
    """Take the data directory's server lock; warn and return None if another server has it."""
    try:
        return ServerLock(data)
    except Conflict as error:
        screen.print_line(f"warning: {error}")
        return None
