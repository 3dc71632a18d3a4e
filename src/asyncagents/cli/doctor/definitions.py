"""The doctor's checks of agent and skill files: broken files and warnings."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from asyncagents.cli.doctor.report import Check
from asyncagents.config.env import system_environment
from asyncagents.config.load import LoadedConfig
from asyncagents.config.markdown.agents import BrokenFile, find_agents
from asyncagents.config.markdown.skills import find_skills
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import ConfigError
from asyncagents.llm.alias import find_alias


def check_definitions(directory: Path, loaded: LoadedConfig) -> Iterator[Check]:
    """Check agents and skills; a broken file is a warning, as it does not affect the others."""
    environment = system_environment()
    agents = find_agents(
        environment, directory, trusted=loaded.trusted, alias=partial(find_alias, loaded.config)
    )
    skills = find_skills(environment, directory, trusted=loaded.trusted)
    try:
        there = Agents(loaded.config, agents, home=str(environment.home))
        names = [agent.name for agent in there.list()]
        yield Check("ok", "agents", f"{', '.join(names)}; {there.default().name} is the default")
    except ConfigError as error:
        yield Check("fail", "agents", str(error))
    yield from _check_warnings("agents", agents.broken, agents.warnings)
    if skills.skills:
        yield Check("ok", "skills", ", ".join(sorted(skills.skills)))
    yield from _check_warnings("skills", skills.broken, skills.warnings)


def _check_warnings(name: str, broken: Sequence[BrokenFile], warnings: Sequence[str]) -> Iterator[Check]:
    for each in broken:
        yield Check("warn", name, f"{each.path} {each.reason}", "it is ignored; all others are used")
    for warning in warnings:
        yield Check("warn", name, warning)
