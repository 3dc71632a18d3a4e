"""Open what coding agents need: the web client, MCP servers, and the project of each directory."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from asyncagents.config.config import Config, DelegationConfig
from asyncagents.config.env import system_environment
from asyncagents.domain.id import Ids
from asyncagents.domain.port import Clock
from asyncagents.engine.tool import AnyTool
from asyncagents.store.store import Store
from asyncagents.tools.mcp.servers import open_servers
from asyncagents.tools.output.limit import delete_old_files
from asyncagents.tools.project.projects import Extensions, Projects
from asyncagents.tools.project.toolbox import ToolDeps
from asyncagents.tools.web.own_port import read_own_port
from asyncagents.tools.web.web import open_web

WAIT_SECONDS = 2.0

DelegationTools: TypeAlias = Callable[[DelegationConfig], Sequence[AnyTool]]
ProjectsFactory: TypeAlias = Callable[[Store, Ids, DelegationTools], Projects]


@asynccontextmanager
async def open_projects_factory(
    output: Path,
    *,
    config: Config | None,
    tools: Sequence[AnyTool],
    clock: Clock,
    extensions: Extensions[Any] | None = None,
) -> AsyncIterator[ProjectsFactory]:
    """Yield a factory of `Projects`; with `config` None, each directory reads its own files."""
    environment = system_environment()
    delete_old_files(output, clock.now())
    made: list[Projects] = []
    async with (
        open_web(own_port=partial(read_own_port, output.parent)) as web,
        open_servers(output) as servers,
    ):

        def create_projects(store: Store, ids: Ids, delegating: DelegationTools) -> Projects:
            bench = ToolDeps(
                web=web,
                read_todos=store.todos,
                ids=ids,
                home=environment.home,
                output_folder=output,
                clock=clock,
                servers=servers,
                delegation_tools=delegating,
            )
            projects = Projects(
                environment, bench, clock=clock, config=config, tools=tools, extensions=extensions
            )
            made.append(projects)
            return projects

        try:
            yield create_projects
        finally:
            for projects in made:
                await projects.wait_for_writes(WAIT_SECONDS)
