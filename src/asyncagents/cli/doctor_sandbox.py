"""What the doctor says of the sandbox: whether one works here, and whose commands run in it."""

from pathlib import Path

from asyncagents.cli.doctor_report import Check
from asyncagents.config.agents import find_agents
from asyncagents.config.child import child_environment
from asyncagents.config.env import system_environment
from asyncagents.config.load import Loaded
from asyncagents.config.trust import project_root
from asyncagents.domain.agent import Agent
from asyncagents.engine.agents import Agents
from asyncagents.errors import ConfigError
from asyncagents.tools.process import Processes

INSTALL = "install the package `bubblewrap`"
NAMESPACES = (
    "user namespaces may be switched off: see the sysctls kernel.apparmor_restrict_unprivileged_userns, "
    "kernel.unprivileged_userns_clone and user.max_user_namespaces, or what the container allows"
)


async def check_sandbox(directory: Path, loaded: Loaded, data: Path) -> list[Check]:
    """Try the sandbox, also without a network; recommend it where it works and no agent has it."""
    environment = system_environment()
    confined = _confined(directory, loaded)
    root = project_root(environment, directory)
    processes = Processes(
        child_environment(environment, loaded.config), folder=data / "tool-output", root=root
    )
    failure = await processes.sandbox_failure(network=True) or await processes.sandbox_failure(network=False)
    names = ", ".join(agent.name for agent in confined)
    if failure:
        hint = INSTALL if "not installed" in failure else NAMESPACES
        if confined:
            return [Check("fail", "sandbox", f"{failure}, so no command of {names} is run", hint)]
        return [Check("ok", "sandbox", f"{failure}: there is none for commands of agents", hint)]
    if not confined:
        hint = '"sandbox": true in your asyncagents.json lets them write the project and little else'
        return [Check("ok", "sandbox", "bwrap works, and commands of agents run outside any sandbox", hint)]
    found = [Check("ok", "sandbox", f"commands of {names} run in one")]
    return [*found, _trusted(root)] if loaded.trusted else found


def _confined(directory: Path, loaded: Loaded) -> list[Agent]:
    environment = system_environment()
    files = find_agents(environment, directory, trusted=loaded.trusted)
    try:
        agents = Agents(loaded.config, files, home=str(environment.home)).list()
    except ConfigError:  # it is told with the agents
        return []
    return [agent for agent in agents if agent.sandbox is not None]


def _trusted(root: Path) -> Check:
    told = (
        f"{root} is trusted: a command may add a configuration file or a plugin there, which counts in full"
    )
    return Check("warn", "sandbox", told, "keep settings in your own files, and `asyncagents trust --remove`")
