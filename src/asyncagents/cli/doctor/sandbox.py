"""The doctor's checks of the sandbox: whether it works, and which agents use it."""

from pathlib import Path

from asyncagents.cli.doctor.report import Check
from asyncagents.config.child_environment import child_environment
from asyncagents.config.env import system_environment
from asyncagents.config.load import LoadedConfig
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.trust import project_root
from asyncagents.domain.agent.agent import Agent
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import ConfigError
from asyncagents.tools.process.processes import Processes

INSTALL = "install the package `bubblewrap`"
NAMESPACES = (
    "user namespaces may be switched off: see the sysctls kernel.apparmor_restrict_unprivileged_userns, "
    "kernel.unprivileged_userns_clone and user.max_user_namespaces, or what the container allows"
)


async def check_sandbox(directory: Path, loaded: LoadedConfig, data: Path) -> list[Check]:
    """Try the sandbox with and without network; recommend it if it works and no agent uses it."""
    environment = system_environment()
    confined = _sandboxed_agents(directory, loaded)
    root = project_root(environment, directory)
    processes = Processes(
        child_environment(environment, loaded.config), folder=data / "tool-output", root=root
    )
    failure = await processes.sandbox_failure(network=True) or await processes.sandbox_failure(network=False)
    names = ", ".join(agent.name for agent in confined)
    if failure:
        hint = INSTALL if "not installed" in failure else NAMESPACES
        if confined:
            return [Check("fail", "sandbox", f"{failure}, so commands of {names} are refused", hint)]
        return [Check("ok", "sandbox", f"{failure}: commands of agents run without a sandbox", hint)]
    if not confined:
        hint = '"sandbox": true in your asyncagents.json restricts their writes to the project'
        return [Check("ok", "sandbox", "bwrap works, but no agent uses a sandbox", hint)]
    found = [Check("ok", "sandbox", f"commands of {names} run in a sandbox")]
    return [*found, _trust_warning(root)] if loaded.trusted else found


def _sandboxed_agents(directory: Path, loaded: LoadedConfig) -> list[Agent]:
    environment = system_environment()
    files = find_agents(environment, directory, trusted=loaded.trusted)
    try:
        agents = Agents(loaded.config, files, home=str(environment.home)).list()
    except ConfigError:  # reported by the check of agents
        return []
    return [agent for agent in agents if agent.sandbox is not None]


def _trust_warning(root: Path) -> Check:
    text = f"{root} is trusted: a command may add a configuration file or a plugin there, which then applies"
    return Check(
        "warn", "sandbox", text, "keep settings in your own files, and run `asyncagents trust --remove`"
    )
