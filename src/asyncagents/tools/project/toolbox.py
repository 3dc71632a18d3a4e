"""Open what tools share, and build the built-in tools of one project."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import DelegationConfig
from asyncagents.config.markdown.skills import Skill
from asyncagents.domain.clock import Clock
from asyncagents.domain.id import Ids
from asyncagents.engine.tool import AnyTool
from asyncagents.store.store import Store
from asyncagents.tools.builtin.bash import Confinement, bash
from asyncagents.tools.builtin.edit import edit
from asyncagents.tools.builtin.glob import glob
from asyncagents.tools.builtin.grep import grep
from asyncagents.tools.builtin.list import list_files
from asyncagents.tools.builtin.patch import patch
from asyncagents.tools.builtin.question import question
from asyncagents.tools.builtin.read import read
from asyncagents.tools.builtin.skill import skill
from asyncagents.tools.builtin.todo import ReadTodos, todoread, todowrite
from asyncagents.tools.builtin.wait import wait
from asyncagents.tools.builtin.webfetch import webfetch
from asyncagents.tools.builtin.write import write
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.mcp.servers import Servers, open_servers
from asyncagents.tools.output.limit import delete_old_files, limit_output
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.sandbox import Sandboxes
from asyncagents.tools.web.own_port import read_own_port
from asyncagents.tools.web.web import Web, open_web

DelegationTools: TypeAlias = Callable[[DelegationConfig], Sequence[AnyTool]]
"""Builds the delegation tools of a config."""


class ProjectIO(Struct, frozen=True, kw_only=True):
    """Files, processes and sandboxes that the tools of one project share; kept when its config changes."""

    files: Files
    read_log: ReadLog
    processes: Processes
    sandboxes: Sandboxes

    def with_guard(self, guard: PlaceGuard) -> "ProjectIO":
        """Return a copy whose files are under `guard`."""
        return replace(self, files=self.files.with_guard(guard))


class ToolDeps(Struct, frozen=True, kw_only=True):
    """Dependencies that the tools of all projects share."""

    web: Web
    read_todos: ReadTodos
    ids: Ids
    home: Path
    output_folder: Path
    """Folder for outputs that are too long for a tool result."""
    clock: Clock | None = None
    """Clock for timers; None: the system's."""
    servers: Servers | None = None
    """MCP servers; None: this runtime starts none."""
    delegation_tools: DelegationTools = lambda config: ()


@asynccontextmanager
async def open_tool_deps(
    output: Path, store: Store, ids: Ids, *, home: Path, clock: Clock, delegation_tools: DelegationTools
) -> AsyncIterator[ToolDeps]:
    """Open the web client and the MCP servers; delete old files of the output folder."""
    delete_old_files(output, clock.now())
    async with (
        open_web(own_port=partial(read_own_port, output.parent)) as web,
        open_servers(output) as servers,
    ):
        yield ToolDeps(
            web=web,
            read_todos=store.todos,
            ids=ids,
            home=home,
            output_folder=output,
            clock=clock,
            servers=servers,
            delegation_tools=delegation_tools,
        )


def built_in_tools(deps: ToolDeps, project_io: ProjectIO, skills: Sequence[Skill]) -> tuple[AnyTool, ...]:
    """Build the built-in tools, in the order in which the model reads them."""
    files, read_log = project_io.files, project_io.read_log
    tools: list[AnyTool] = [
        read(files, read_log),
        list_files(files, read_log, project_io.processes),
        glob(files, read_log, project_io.processes),
        grep(files, read_log, project_io.processes),
        edit(files, read_log),
        write(files, read_log),
        patch(files, read_log),
        bash(
            project_io.processes,
            home=deps.home,
            files=files,
            confinement=Confinement(project_io.sandboxes, files.threads, _skill_folders(skills)),
        ),
        webfetch(deps.web, project_io.processes),
        todowrite(deps.read_todos, deps.ids),
        todoread(deps.read_todos),
        question(),
        wait(deps.clock),
    ]
    if skills:
        tools.append(skill(skills, files.threads))
    return tuple(limit_output(tool, deps.output_folder) for tool in tools)


def _skill_folders(skills: Sequence[Skill]) -> tuple[Path, ...]:
    return tuple(skill.path.parent for skill in skills)
