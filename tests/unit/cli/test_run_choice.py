"""Who answers: what was asked for first, then what the session used, then the config."""

from typing import Any

import pytest

from asyncagents.cli.exit import CliError
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.cli.run.choose import AgentChoice, choose_agent_and_model, parse_model
from asyncagents.config.config import Config
from asyncagents.config.markdown.agents import FoundAgents
from asyncagents.domain.conversation.session import Session, SessionModel, SessionTime
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import InvalidInput
from tests.support.domain.event import SESSION
from tests.support.environment import ConfigDesk


def config(desk: ConfigDesk, **more: Any) -> Config:
    models: dict[str, Any] = {name: {} for name in ("a", "b", "c", "d")}
    local = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://x/v1"}, "models": models}
    agents = {
        "plan": {"model": "local/b"},
        "plain": {},
        "sub": {"mode": "subagent"},
        "off": {"disable": True},
    }
    desk.write(
        "asyncagents.json", {"provider": {"local": local}, "model": "local/a", "agent": agents, **more}
    )
    return desk.load().config


def session(*, agent: str | None = "build", model: str | None = "c") -> Session:
    return Session(
        id=SESSION,
        slug="calm-river",
        project_id="p",
        directory="/",
        title="t",
        version="1",
        time=SessionTime(created=1, updated=1),
        agent=agent,
        model=SessionModel(id=model, provider_id="local") if model else None,
    )


def chosen_by(config: Config, arguments: RunArguments, before: Session | None) -> AgentChoice:
    return choose_agent_and_model(config, Agents(config, FoundAgents(), home="/home/ada"), arguments, before)


@pytest.mark.parametrize(
    ("asked", "before", "expected"),
    [
        ({}, None, ("build", "a")),
        ({"model": "local/d"}, None, ("build", "d")),
        ({"agent": "plan"}, None, ("plan", "b")),
        ({"agent": "plain"}, None, ("plain", "a")),
        ({"agent": "plan", "model": "local/d"}, session(), ("plan", "d")),
        ({}, session(), ("build", "c")),
        ({"agent": "plan"}, session(), ("plan", "b")),
        ({"agent": "plain"}, session(), ("plain", "c")),
        ({}, session(agent="plan", model=None), ("plan", "b")),
    ],
)
def test_agent_and_model_come_from_the_arguments_the_session_or_the_config(
    desk: ConfigDesk, asked: dict[str, str], before: Session | None, expected: tuple[str, str]
) -> None:
    choice = chosen_by(config(desk), RunArguments(prompt="Hi", directory=desk.project, **asked), before)  # type: ignore[arg-type]
    assert choice.model is not None
    assert (choice.agent, choice.model.model_id) == expected


def test_the_default_agent_of_the_config_is_used_without_another_choice(desk: ConfigDesk) -> None:
    arguments = RunArguments(prompt="Hi", directory=desk.project)
    assert chosen_by(config(desk, default_agent="plan"), arguments, None).agent == "plan"


@pytest.mark.parametrize(
    ("asked", "before", "said"),
    [
        ({"agent": "off"}, None, "there is no agent 'off'"),
        ({}, session(model="gone"), "provider local has no model 'gone'"),
        ({}, session(agent="long gone"), "this session's agent 'long gone' is gone"),
    ],
)
def test_an_agent_or_model_that_cannot_be_used_is_refused(
    desk: ConfigDesk, asked: dict[str, str], before: Session | None, said: str
) -> None:
    arguments = RunArguments(prompt="Hi", directory=desk.project, **asked)  # type: ignore[arg-type]
    with pytest.raises(CliError, match=said) as caught:
        chosen_by(config(desk), arguments, before)
    assert caught.value.exit_code == 2
    assert ("another" in caught.value.hint) == (before is not None)


def test_a_subagent_may_be_prompted(desk: ConfigDesk) -> None:
    arguments = RunArguments(prompt="Hi", directory=desk.project, agent="sub")
    assert chosen_by(config(desk), arguments, None).agent == "sub"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("gpt-4o", "openai/gpt-4o"), ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"), ("b", "local/b")],
)
def test_a_model_without_its_provider_is_suggested_in_full(desk: ConfigDesk, given: str, meant: str) -> None:
    with pytest.raises(CliError, match=f"'{given}' is not a model: did you mean {meant}\\?"):
        parse_model(given, config(desk))


def test_a_model_of_no_known_provider_is_refused(desk: ConfigDesk) -> None:
    with pytest.raises(InvalidInput, match="write it as"):
        parse_model("zzz", config(desk))
