"""The connections of a session's MCP servers end when nothing of its tree has used them for a while."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import system_environment
from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.run import Run
from asyncagents.engine.workplace.session_servers import TreeServers, stored_form
from asyncagents.tools.mcp.held import MOST_HELD, HeldServers
from asyncagents.tools.mcp.server_control import ServerControl
from asyncagents.tools.mcp.servers import open_servers
from asyncagents.tools.project.projects import Projects
from asyncagents.tools.project.toolbox import ToolDeps
from asyncagents.tools.web.web import open_web
from tests.support.mcp.session import Ledger, given_server, server_specs, until_dead
from tests.support.wait import wait_until

ROOT = SessionId("ses_root")


async def read_todos(session_id: SessionId) -> tuple[Todo, ...]:
    return ()


@asynccontextmanager
async def open_projects(tmp_path: Path, idle_seconds: float) -> AsyncIterator[tuple[Projects, ServerControl]]:
    clock = SystemClock()
    async with (
        open_web() as web,
        open_servers(tmp_path / "output", idle_seconds=idle_seconds) as servers,
    ):
        deps = ToolDeps(
            web=web,
            read_todos=read_todos,
            ids=Ids(clock, SystemRng()),
            home=tmp_path,
            output_folder=tmp_path / "output",
            servers=servers,
        )
        config = Config(data_dir=tmp_path / "data")
        projects = Projects(system_environment(), deps, clock=clock, config=config)
        assert projects.mcp_control is not None
        yield projects, projects.mcp_control


def tree_of(control: ServerControl, server: NewMcpServer, user: object = None) -> TreeServers:
    control.session_servers.keep_values(ROOT, (server,), replaces=True)
    return TreeServers(root_id=ROOT, servers=(stored_form(server),), user=user)


async def work_once(projects: Projects, directory: Path, root_id: SessionId, server: NewMcpServer) -> None:
    """Let a run use a server, and end."""
    tree = TreeServers(root_id=root_id, servers=(stored_form(server),), user=Run(root_id))
    assert "kit_add" in (await projects.at(str(directory), working=True, tree=tree)).tools


@pytest.mark.spec("X-04")
async def test_servers_of_a_tree_at_rest_end_and_start_again_when_it_works(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with open_projects(tmp_path, idle_seconds=0.05) as (projects, control):
        tree = tree_of(control, given_server(ledger))
        await work_once(projects, tmp_path, ROOT, given_server(ledger))
        await until_dead(ledger.pid())
        await wait_until(lambda: control.tree_states(tree)["kit"].status == "waiting")
        await work_once(projects, tmp_path, ROOT, given_server(ledger))
        assert len(ledger.lines("start")) == 2


@pytest.mark.spec("X-04")
async def test_servers_of_a_tree_that_works_stay_and_those_of_another_end(tmp_path: Path) -> None:
    mine, other = Ledger(tmp_path / "mine"), Ledger(tmp_path / "other")
    async with open_projects(tmp_path, idle_seconds=0.05) as (projects, control):
        run = Run(ROOT)
        tree = tree_of(control, given_server(mine), run)
        await projects.at(str(tmp_path), working=True, tree=tree)
        root_id = SessionId("ses_other")
        control.session_servers.keep_values(root_id, (given_server(other),), replaces=True)
        await work_once(projects, tmp_path, root_id, given_server(other))
        await until_dead(other.pid())
        assert control.tree_states(tree)["kit"].status == "connected"
        assert run.session_id == ROOT


async def test_only_so_many_trees_at_rest_hold_servers(tmp_path: Path) -> None:
    held = HeldServers(idle_seconds=60.0)
    specs = server_specs(tmp_path, kit=McpConfig(type="local", command=("kit",)))
    run = Run(ROOT)
    for each in range(MOST_HELD + 10):
        user = run if each == 0 else None
        tree = TreeServers(root_id=SessionId(f"ses_{each}"), servers=(), user=user)
        held.hold("/", tree, wanted={}, specs=specs, now=float(each))
    assert len(list(held.all_specs())) == MOST_HELD
    assert held.specs_of(SessionId("ses_0")), "a run uses them"
    assert not held.specs_of(SessionId("ses_1"))
    assert held.seconds_to_next(0.0) is not None
