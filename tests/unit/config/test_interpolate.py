"""`{env:…}` and `{file:…}`."""

import os

import pytest

from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk


def agent_prompt(desk: ConfigDesk, prompt: str) -> str | None:
    desk.write("opencode.json", {"agent": {"a": {"prompt": prompt}}})
    return desk.load().config.agent["a"].prompt


def test_a_variable_is_filled_in_wherever_it_stands(desk: ConfigDesk) -> None:
    desk.variables = {"WHO": "you", "WHAT": "sing"}
    assert agent_prompt(desk, "tell {env:WHO} to {env:WHAT}; {env:WHO}!") == "tell you to sing; you!"
    assert desk.load().config.variables == ("WHAT", "WHO")


def test_a_variable_in_a_list_is_filled_in_too(desk: ConfigDesk) -> None:
    desk.variables = {"DOCS": "/docs"}
    desk.write("opencode.json", {"instructions": ["{env:DOCS}/A.md"]})
    assert desk.load().config.instructions == ("/docs/A.md",)


def test_a_variable_that_is_not_set_is_empty_and_warned_of(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"agent": {"a": {"prompt": "[{env:NOPE}]"}}})
    loaded = desk.load()
    assert loaded.config.agent["a"].prompt == "[]"
    assert loaded.warnings == (
        f"{file}: agent.a.prompt uses {{env:NOPE}}, which is not set: it counts as empty",
    )


def test_a_model_of_a_variable_that_is_not_set_is_no_model(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"model": "{env:MODEL}"})
    loaded = desk.load()
    assert loaded.config.model is None
    assert len(loaded.warnings) == 1


def test_a_filled_in_value_is_not_interpolated_again(desk: ConfigDesk) -> None:
    desk.variables = {"SLY": "{env:OTHER}{file:/etc/passwd}", "OTHER": "x"}
    assert agent_prompt(desk, "{env:SLY}") == "{env:OTHER}{file:/etc/passwd}"


def test_quotes_and_line_breaks_come_in_unharmed(desk: ConfigDesk) -> None:
    desk.variables = {"ODD": 'a "b"\n\\c'}
    assert agent_prompt(desk, "{env:ODD}") == 'a "b"\n\\c'


def test_a_file_is_found_beside_the_file_that_names_it(desk: ConfigDesk) -> None:
    desk.write("~/.config/opencode/opencode.json", {"agent": {"a": {"prompt": "{file:./text/a.md}"}}})
    desk.write("~/.config/opencode/text/a.md", "  be kind\nand brief\n\n")
    assert desk.load().config.agent["a"].prompt == "be kind\nand brief"


def test_a_file_may_be_at_home_or_anywhere_or_named_by_a_variable(desk: ConfigDesk) -> None:
    file = desk.write("~/secret/key", "k-1\n")
    desk.variables = {"HOME": str(desk.home)}
    assert agent_prompt(desk, "{file:~/secret/key}") == "k-1"
    assert agent_prompt(desk, f"{{file:{file}}}") == "k-1"
    assert agent_prompt(desk, "{file:{env:HOME}/secret/key}") == "k-1"


def test_a_path_in_a_config_variable_is_relative_to_the_project(desk: ConfigDesk) -> None:
    desk.write("a.md", "here")
    desk.variables = {"OPENCODE_CONFIG_CONTENT": '{"agent": {"a": {"prompt": "{file:a.md}"}}}'}
    assert desk.load().config.agent["a"].prompt == "here"


def test_a_file_that_is_missing_is_an_error_that_names_it(desk: ConfigDesk) -> None:
    with pytest.raises(ConfigError) as caught:
        agent_prompt(desk, "{file:gone.md}")
    assert str(caught.value) == (
        f"{desk.project / 'opencode.json'}: agent.a.prompt uses {{file:gone.md}}, "
        f"but {desk.project / 'gone.md'} does not exist: create it or correct the path"
    )


def test_a_file_that_is_a_folder_is_an_error_that_names_both(desk: ConfigDesk) -> None:
    with pytest.raises(ConfigError, match=r"agent\.a\.prompt uses \{file:\.\}, but .* cannot be read"):
        agent_prompt(desk, "{file:.}")


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/tty"])
def test_a_pipe_or_a_device_is_an_error_and_nothing_is_waited_for(desk: ConfigDesk, name: str) -> None:
    os.mkfifo(desk.project / "pipe")
    with pytest.raises(ConfigError, match=rf"uses \{{file:{name}\}}, but .* cannot be read"):
        agent_prompt(desk, f"{{file:{name}}}")


def test_a_config_file_that_is_a_pipe_is_an_error(desk: ConfigDesk) -> None:
    os.mkfifo(desk.project / "opencode.json")
    with pytest.raises(ConfigError, match=r"opencode\.json cannot be read \(a pipe or a device\)"):
        desk.load()


@pytest.mark.parametrize(
    "data",
    [
        {"username": "{file:gone}"},
        {"keybinds": {"deep": ["{env:NOPE}"]}},
        {"qqq": "{file:gone}"},
        {"provider": {"openai": {"id": "{file:gone}", "models": {"m": {"family": "{env:NOPE}"}}}}},
        {"agent": {"a": {"color": "{file:gone}"}}},
        {"mcp": {"s": {"type": "local", "command": ["x"], "oauth": {"clientSecret": "{env:NOPE}"}}}},
    ],
)
def test_values_of_ignored_keys_are_not_filled_in(desk: ConfigDesk, data: dict[str, object]) -> None:
    desk.write("asyncagents.json", data)
    loaded = desk.load()
    assert loaded.config.variables == ()
    assert not [warning for warning in loaded.warnings if "NOPE" in warning]


def test_an_option_that_only_the_adapter_knows_is_filled_in(desk: ConfigDesk) -> None:
    desk.variables = {"REGION": "eu"}
    desk.write("opencode.json", {"provider": {"openai": {"options": {"region": "{env:REGION}"}}}})
    assert desk.load().config.provider["openai"].options == {"region": "eu"}


def test_a_token_in_a_comment_is_not_looked_at(desk: ConfigDesk) -> None:
    desk.write("opencode.jsonc", '{\n// "model": "{file:gone}",\n"default_agent": "plan"}')
    assert desk.load().warnings == ()


def test_a_variable_that_is_no_text_is_an_error(desk: ConfigDesk) -> None:
    desk.variables = {"RAW": b"\xff".decode(errors="surrogateescape")}
    with pytest.raises(ConfigError, match=r"uses \{env:RAW\}, which is not UTF-8 text"):
        agent_prompt(desk, "{env:RAW}")


def test_braces_that_are_no_token_stay(desk: ConfigDesk) -> None:
    assert agent_prompt(desk, "{env:} {env} {file:} {x}") == "{env:} {env} {file:} {x}"
