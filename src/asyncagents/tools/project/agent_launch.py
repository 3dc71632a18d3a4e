"""How the program of an external agent is started in a project."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from asyncagents.config.child_environment import named_variables
from asyncagents.config.env import Environment
from asyncagents.engine.external.agent import ExternalStep
from asyncagents.tools.process.processes import BIND_ALL_OPTIONS, Processes


@runtime_checkable
class SandboxTrial(Protocol):
    """Workplaces that can tell whether programs can be given a read-only project."""

    async def sandbox_failure(self, directory: str) -> str:
        """Return why no sandbox works in a directory; an empty string if one does."""
        ...


class AgentLaunch(Struct, frozen=True, kw_only=True):
    processes: Processes
    command: tuple[str, ...]
    cwd: Path
    root: Path
    """Root of the project."""
    home: Path
    secrets: tuple[str, ...] = ()
    """Values of variables that are redacted in what the program writes to its stderr."""
    sandbox: tuple[str, ...] | None = None
    """Options for bwrap; None: the program may change the project."""


def plan_agent_launch(
    step: ExternalStep, environment: Environment, root: Path, processes: Processes
) -> AgentLaunch:
    """Return how the program of a step is started, with the variables that its backend names."""
    variables = named_variables(environment, step.backend.environment)
    return AgentLaunch(
        processes=processes.with_variables(variables),
        command=step.backend.command,
        cwd=Path(step.directory),
        root=root,
        home=environment.home,
        secrets=tuple(variables.values()),
        sandbox=read_only_sandbox(root) if step.read_only else None,
    )


def read_only_sandbox(root: Path) -> tuple[str, ...]:
    """Return options for bwrap under which only the project cannot be changed."""
    return (*BIND_ALL_OPTIONS, "--ro-bind", str(root), str(root))
