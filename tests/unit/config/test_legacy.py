"""Older spellings of OpenCode mean what their new forms mean."""

import pytest

from tests.support.environment import ConfigDesk


@pytest.mark.spec("S-06")
def test_max_steps_is_the_old_name_of_steps(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"agent": {"a": {"maxSteps": 4}, "b": {"maxSteps": 4, "steps": 5}}})
    loaded = desk.load()
    assert loaded.config.agent["a"].steps == 4
    assert loaded.config.agent["b"].steps == 5
    assert "agent.a.steps" in loaded.origins
    assert "agent.a.maxSteps" not in loaded.origins


def test_max_steps_of_a_later_file_wins_over_steps_of_an_earlier_one(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"agent": {"a": {"steps": 1}}})
    desk.write("asyncagents.json", {"agent": {"a": {"maxSteps": 2}}})
    assert desk.load().config.agent["a"].steps == 2


def test_tools_switched_on_and_off_become_permissions(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"tools": {"bash": False, "webfetch": True, "write": False, "my_*": False}})
    assert desk.load().config.permission == {
        "bash": "deny",
        "webfetch": "allow",
        "edit": "deny",
        "my_*": "deny",
    }


def test_a_permission_wins_over_the_tools_of_the_same_file(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"permission": {"bash": "ask"}, "tools": {"read": False, "bash": False}})
    assert list(desk.load().config.permission.items()) == [("read", "deny"), ("bash", "ask")]


def test_tools_of_an_agent_become_its_permissions(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"agent": {"a": {"tools": {"patch": False}, "permission": {"bash": "ask"}}}})
    agent = desk.load().config.agent["a"]
    assert agent.permission == {"edit": "deny", "bash": "ask"}
    assert agent.tools == {"patch": False}


def test_one_action_is_a_rule_for_everything(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"permission": "ask", "agent": {"a": {"permission": "deny"}}})
    config = desk.load().config
    assert config.permission == {"*": "ask"}
    assert config.agent["a"].permission == {"*": "deny"}


def test_a_mode_is_a_primary_agent(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "mode": {"calm": {"prompt": "be calm", "model": "a/m"}},
            "agent": {"calm": {"prompt": "be very calm"}},
        },
    )
    agent = desk.load().config.agent["calm"]
    assert agent.mode == "primary"
    assert agent.prompt == "be very calm"
    assert agent.model is not None


def test_unknown_keys_of_an_agent_become_its_options(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {"agent": {"a": {"reasoningEffort": "high", "n": 1, "color": "#ffffff", "options": {"n": 2}}}},
    )
    assert desk.load().config.agent["a"].options == {"reasoningEffort": "high", "n": 2}
