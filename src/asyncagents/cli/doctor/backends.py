"""The doctor's checks of backends: whether the program of each external agent is found and answers."""

import asyncio
from pathlib import Path

from asyncagents.cli.doctor.report import Check
from asyncagents.config.child_environment import child_environment, named_variables
from asyncagents.config.env import system_environment
from asyncagents.config.load import LoadedConfig
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.trust import project_root
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import ConfigError, ToolError
from asyncagents.remote.acp.agents import MOST_ERROR, connect
from asyncagents.remote.acp.calls import MergedCall
from asyncagents.remote.acp.client import AcpClient
from asyncagents.remote.acp.program import open_program
from asyncagents.remote.json_rpc import ConnectionLoss, RpcError
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.project.agent_launch import AgentLaunch

ANSWER_SECONDS = 30.0
"""Large programs need several seconds for their start, more if the machine is busy."""
HINT = "run its command in a terminal: it must wait for input and print nothing but JSON"


async def check_backends(directory: Path, loaded: LoadedConfig, data: Path) -> list[Check]:
    """Start the program of each external agent, and ask it for its version and what it can do."""
    async with asyncio.TaskGroup() as group:
        checks = [
            group.create_task(_check_backend(name, backend, _launch(backend, directory, loaded, data), group))
            for name, backend in _backends(directory, loaded).items()
        ]
    return [each.result() for each in checks]


def _backends(directory: Path, loaded: LoadedConfig) -> dict[str, AcpBackend]:
    environment = system_environment()
    files = find_agents(environment, directory, trusted=loaded.trusted)
    try:
        agents = Agents(loaded.config, files, home=str(environment.home)).list(hidden=True)
    except ConfigError:  # reported by the check of agents
        return {}
    return {agent.name: agent.backend for agent in agents if agent.backend is not None}


async def _check_backend(
    agent: str, backend: AcpBackend, launch: AgentLaunch, group: asyncio.TaskGroup
) -> Check:
    name, command = f"agent {agent}", backend.command_line
    client = AcpClient(str(launch.cwd), _ask_nothing)
    try:
        async with open_program(launch, group) as program:
            try:
                async with connect(client, program, group):
                    await client.initialize(seconds=ANSWER_SECONDS)
            except (RpcError, ConnectionLoss) as error:
                why = await program.end_text()
                return Check(
                    "fail",
                    name,
                    f"{command} does not answer: {program.redact(str(error))[:MOST_ERROR]}. {why}",
                    HINT,
                )
    except ToolError as error:
        return Check("fail", name, f"{command} does not start: {error}", HINT)
    return Check("ok", name, f"{command}, {_describe(client)}")


def _launch(backend: AcpBackend, directory: Path, loaded: LoadedConfig, data: Path) -> AgentLaunch:
    environment = system_environment()
    root = project_root(environment, directory)
    variables = named_variables(environment, backend.environment)
    processes = Processes(
        child_environment(environment, loaded.config) | variables, folder=data / "tool-output", root=root
    )
    return AgentLaunch(
        processes=processes,
        command=backend.command,
        cwd=directory,
        root=root,
        home=environment.home,
        secrets=tuple(variables.values()),
    )


async def _ask_nothing(call: MergedCall) -> tuple[Ask, ...]:
    return ()


def _describe(client: AcpClient) -> str:
    able = [
        word
        for word, offered in (
            ("loads sessions", client.capabilities.load_session),
            ("resumes sessions", client.capabilities.resumes),
        )
        if offered
    ]
    version = f"version {client.agent_version}" if client.agent_version else "version unknown"
    lost = "neither loads nor resumes sessions, so its tasks do not survive a crash"
    return f"{version}, {' and '.join(able) or lost}"
