"""Whose commands run in a sandbox, as files say it."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.markdown.agents import find_agents
from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk

PLAIN = Sandbox()
CACHE = Sandbox(write=("HOME/.cache",))


def sandbox_of(desk: ConfigDesk, name: str = "build", *, trusted: bool = True) -> Sandbox | None:
    found = find_agents(desk.environment, desk.project, trusted=trusted)
    assert found.all_warnings == () or not trusted
    agents = Agents(desk.load().config, found, home=str(desk.home))
    sandbox = agents.get(name).sandbox
    if sandbox is None:
        return None
    write = tuple(each.replace(str(desk.home), "HOME") for each in sandbox.write)
    return Sandbox(write=write, network=sandbox.network)


@pytest.mark.parametrize(
    ("usual", "own", "found"),
    [
        (None, None, None),
        (False, None, None),
        (True, None, PLAIN),
        (True, False, None),
        (False, True, PLAIN),
        (None, {}, PLAIN),
        (None, {"write": ["~/.cache"]}, CACHE),
        ({"write": ["~/.cache"]}, None, CACHE),
        ({"write": ["~/.cache"]}, True, CACHE),
        ({"write": ["~/.cache"]}, {"network": False}, Sandbox(write=("HOME/.cache",), network=False)),
        ({"write": ["~/.cache"], "network": False}, {"write": []}, Sandbox(network=False)),
        ({"network": False}, {"network": True}, Sandbox(network=True)),
        ({"write": ["~", "/x/../y/"]}, None, Sandbox(write=("HOME", "/y"))),
    ],
)
def test_sandbox_settings_of_an_agent_override_the_common_ones(
    desk: ConfigDesk, usual: Any, own: Any, found: Sandbox | None
) -> None:
    agent = {} if own is None else {"agent": {"build": {"sandbox": own}}}
    desk.write("asyncagents.json", agent if usual is None else {"sandbox": usual, **agent})
    assert sandbox_of(desk) == found


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("sandbox: true", PLAIN),
        ("sandbox: false", None),
        (
            "sandbox:\n  network: false\n  write:\n    - ~/.cache",
            Sandbox(write=("HOME/.cache",), network=False),
        ),
        ("sandbox:\n  write: [~/.cache]", CACHE),
    ],
)
def test_the_head_of_an_agent_file_sets_its_sandbox(
    desk: ConfigDesk, head: str, found: Sandbox | None
) -> None:
    desk.write(".asyncagents/agents/x.md", f"---\ndescription: X.\n{head}\n---\nGo.\n")
    assert sandbox_of(desk, "x") == found


def test_a_project_that_is_not_trusted_neither_widens_nor_opens_a_sandbox(tmp_path: Path) -> None:
    desk = ConfigDesk(tmp_path, trusted=False)
    desk.write("~/.config/asyncagents/asyncagents.json", {"sandbox": True})
    desk.write("asyncagents.json", {"sandbox": {"write": ["/"]}, "agent": {"build": {"sandbox": False}}})
    desk.write(".asyncagents/agents/build.md", "---\ndescription: B.\nsandbox: false\n---\nGo.\n")
    assert sandbox_of(desk, trusted=False) == PLAIN


@pytest.mark.parametrize(
    ("sandbox", "error"),
    [
        ("yes", "sandbox must be true, false or an object"),
        ({"write": "~/.cache"}, "sandbox.write must be a list"),
        ({"write": [".cache"]}, "sandbox: '.cache' cannot be made writable"),
        ({"write": ["~other/x"]}, "sandbox: '~other/x' cannot be made writable"),
        ({"network": "no"}, "sandbox.network must be true or false"),
    ],
)
def test_an_invalid_sandbox_setting_is_an_error(desk: ConfigDesk, sandbox: Any, error: str) -> None:
    desk.write("asyncagents.json", {"sandbox": sandbox})
    with pytest.raises(ConfigError) as caught:
        desk.load()
    assert error in str(caught.value)


def test_an_included_file_is_secret_only_if_a_key_is_read_from_it(desk: ConfigDesk) -> None:
    key = desk.write("~/keys/work", "sk-1")
    prompt = desk.write("prompts/x.md", "Go.")
    provider = {"x": {"options": {"baseURL": "http://x", "apiKey": "{file:~/keys/work}"}}}
    desk.write("asyncagents.json", {"provider": provider, "agent": {"x": {"prompt": "{file:prompts/x.md}"}}})
    assert desk.load().config.included == {str(key): True, str(prompt): False}
