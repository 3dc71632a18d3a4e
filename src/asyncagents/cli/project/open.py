"""Opens a project (agents, tools, commands, plugins) without a database."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.env import system_environment
from asyncagents.config.paths import data_folder
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import Ids, SessionId
from asyncagents.plugins.plugins import Plugins
from asyncagents.tools.project.projects import OpenedProject, Projects
from asyncagents.tools.project.toolbox import ToolDeps
from asyncagents.tools.web.web import open_web


@asynccontextmanager
async def open_project(directory: Path, data_dir: Path | None) -> AsyncIterator[OpenedProject]:
    """Open the project of a directory. Raises `ConfigError` if its config is invalid."""
    environment, clock = system_environment(), SystemClock()
    output = data_folder(environment, data_dir)[0] / "tool-output"
    async with open_web() as web:
        ids = Ids(clock, SystemRng())
        deps = ToolDeps(web=web, read_todos=_no_todos, ids=ids, home=environment.home, output_folder=output)
        plugins = Plugins(environment, output=output)
        projects = Projects(environment, deps, clock=clock, extensions=plugins)
        try:
            with redirect_stdout(sys.stderr):  # plugins may print; stdout is the command's output
                opened = await projects.open_project(str(directory))
            yield opened
        finally:
            await plugins.end()


async def _no_todos(session_id: SessionId) -> tuple[Todo, ...]:
    return ()
