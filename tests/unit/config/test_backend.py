"""Agents with a backend, as files define them."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.config.markdown.agents import find_agents
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk

OPENCODE = AcpBackend(command=("opencode", "acp"), environment=("OPENCODE_KEY",))
WRITTEN = {"acp": ["opencode", "acp"], "environment": ["OPENCODE_KEY"]}


def agent_of(desk: ConfigDesk, name: str = "reviewer", *, trusted: bool = True) -> Agent:
    found = find_agents(desk.environment, desk.project, trusted=trusted)
    return Agents(desk.load().config, found, home=str(desk.home)).get(name)


@pytest.mark.spec("X-03")
def test_a_backend_in_a_configuration_file_makes_a_subagent_without_a_prompt_of_ours(
    desk: ConfigDesk,
) -> None:
    desk.write("asyncagents.json", {"agent": {"reviewer": {"backend": WRITTEN}}})
    agent = agent_of(desk)
    assert (agent.backend, agent.mode, agent.prompt) == (OPENCODE, "subagent", "")


@pytest.mark.spec("X-03")
def test_a_backend_in_front_matter_is_read_with_the_prompt_below_it(desk: ConfigDesk) -> None:
    head = "backend:\n  acp: [opencode, acp]\n  environment: [OPENCODE_KEY]"
    desk.write(".asyncagents/agents/reviewer.md", f"---\ndescription: Reviews.\n{head}\n---\nBe strict.\n")
    agent = agent_of(desk)
    assert (agent.mode, agent.prompt) == ("subagent", "Be strict.")
    assert agent.backend == replace(OPENCODE, instructions="Be strict.")


@pytest.mark.spec("X-03")
def test_a_backend_of_an_untrusted_project_is_ignored(tmp_path: Path) -> None:
    desk = ConfigDesk(tmp_path, trusted=False)
    desk.write("asyncagents.json", {"agent": {"reviewer": {"description": "x", "backend": WRITTEN}}})
    assert agent_of(desk, trusted=False).backend is None


@pytest.mark.parametrize(
    ("name", "entry", "problem"),
    [
        ("reviewer", {"backend": WRITTEN, "mode": "primary"}, "its mode is subagent, not primary"),
        ("reviewer", {"backend": {"acp": []}}, "acp"),
        ("reviewer", {"backend": {"acp": [" "]}}, "has no command in backend.acp"),
        ("reviewer", {"backend": {"http": "x"}}, "acp"),
        ("build", {"backend": WRITTEN}, "the built-in agent 'build' talks to people"),
    ],
)
def test_a_backend_that_cannot_work_is_refused(
    desk: ConfigDesk, name: str, entry: dict[str, Any], problem: str
) -> None:
    desk.write("asyncagents.json", {"agent": {name: entry}})
    with pytest.raises(ConfigError, match=problem):
        agent_of(desk, name)


def test_the_number_of_external_programs_is_configured(desk: ConfigDesk) -> None:
    assert desk.load().config.external.concurrent == 4
    desk.write("asyncagents.json", {"external": {"concurrent": 1}})
    assert desk.load().config.external.concurrent == 1
