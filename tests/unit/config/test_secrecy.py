"""A key is shown nowhere and given to nobody."""

import json
from pathlib import Path

import pytest

from asyncagents.config.child_environment import child_environment, withheld_names
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.redact import is_secret_name
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk

KEY = "sk-do-not-show-me"
OTHER = "looks-like-nothing"


@pytest.mark.parametrize(
    "document",
    [
        {"provider": {"x": {"options": {"apiKey": KEY, "baseURL": "http://x"}}}},
        {"provider": {"x": {"options": {"apiKey": "{env:K}", "baseURL": "http://x"}}}},
        {"provider": {"x": {"options": {"apiKey": "{file:k}", "baseURL": "http://x"}}}},
        {"provider": {"x": {"options": {"secretAccessKey": KEY, "baseURL": "http://x"}}}},
        {"provider": {"x": {"options": {"headers": {"X-Auth": KEY}, "baseURL": "http://x"}}}},
        {"provider": {"x": {"options": {"baseURL": f"http://x/?key={KEY}"}}}},
        {"provider": {"x": {"api": f"http://user:{KEY}@x"}}},
        {"provider": {"x": {"api": "http://x", "models": {"m": {"headers": {"Authorization": KEY}}}}}},
        {"mcp": {"x": {"type": "remote", "url": "http://x/{env:MY_TOKEN}"}}},
        {"mcp": {"x": {"type": "remote", "url": "http://x", "headers": {"Authorization": f"Bearer {KEY}"}}}},
        {"mcp": {"x": {"type": "local", "command": ["x", "{env:MY_TOKEN}"]}}},
        {"mcp": {"x": {"type": "local", "command": ["x"], "environment": {"WHATEVER": KEY}}}},
        {"mcp": {"x": {"type": "local", "command": ["npx", "s", "--api-key", OTHER]}}},
        {"mcp": {"x": {"type": "local", "command": ["npx", "s", f"--token={OTHER}"]}}},
        {"mcp": {"x": {"type": "local", "command": ["env", f"API_KEY={OTHER}", "npx"]}}},
        {"mcp": {"x": {"type": "local", "command": ["curl", "-H", f"Authorization: {OTHER}"]}}},
        {"mcp": {"x": {"type": "local", "command": ["npx", KEY]}}},
        {"mcp": {"x": {"type": "remote", "url": f"https://h/p?x=1&sig={OTHER}"}}},
        {"mcp": {"x": {"type": "remote", "url": f"https://{OTHER}@h/p"}}},
        {"provider": {"x": {"api": f"https://h/v1?code={OTHER}"}}},
        *(
            {"provider": {"x": {"api": "http://x", "options": {name: OTHER}}}}
            for name in ("auth", "bearer", "pat", "token", "accessKeyId", "secret", "password", "credential")
        ),
        {"provider": {"x": {"api": "http://x", "options": {"auth": {"value": OTHER}}}}},
    ],
)
def test_no_setting_and_no_repr_shows_a_key(desk: ConfigDesk, document: dict[str, object]) -> None:
    desk.variables = {"K": KEY, "MY_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    desk.write("k", KEY)
    desk.write("asyncagents.json", document)
    loaded = desk.load()
    assert "***" in [setting.value for setting in loaded.settings if setting.key.split(".")[1:2] == ["x"]]
    for key in (KEY, OTHER):
        assert key not in json.dumps([setting.value for setting in loaded.settings])
        assert key not in repr(loaded)


@pytest.mark.spec("P-06")
def test_the_secrets_of_services_that_send_results_are_not_shown(desk: ConfigDesk) -> None:
    desk.variables = {"HOOK": OTHER}
    desk.write("asyncagents.json", {"async_tools": {"secrets": [OTHER, "{env:HOOK}"]}})
    loaded = desk.load()
    shown = [setting.value for setting in loaded.settings if setting.key == "async_tools.secrets"]
    assert [secret.reveal() for secret in loaded.config.async_tools.secrets] == [OTHER, OTHER]
    assert shown == ["***"]
    assert OTHER not in repr(loaded)


def test_the_options_of_a_plugin_are_not_shown_if_there_is_a_key_among_them(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"plugin": [["p", {"deep": {"token": OTHER}}]]})
    loaded = desk.load()
    assert [setting.value for setting in loaded.settings if setting.key == "plugin"] == ["***"]


def test_values_that_are_no_secrets_are_shown(desk: ConfigDesk) -> None:
    desk.variables = {"PLACE": "http://x"}
    desk.write("p.md", "Be kind.")
    desk.write(
        "opencode.json",
        {
            "provider": {"x": {"options": {"baseURL": "{env:PLACE}", "setCacheKey": True, "apiKey": ""}}},
            "agent": {"a": {"prompt": "{file:p.md}", "options": {"max_tokens": 5}}},
            "mcp": {
                "l": {"type": "local", "command": ["npx", "-y", "server", "--port", "80"]},
                "r": {"type": "remote", "url": "https://h/p?api-version=2"},
            },
        },
    )
    shown = {setting.key: setting.value for setting in desk.load().settings}
    assert shown["provider.x.options.baseURL"] == "http://x"
    assert shown["provider.x.options.setCacheKey"] is True
    assert shown["provider.x.options.apiKey"] == ""
    assert shown["agent.a.prompt"] == "Be kind."
    assert shown["mcp.l.command"] == ["npx", "-y", "server", "--port", "80"]
    assert shown["mcp.r.url"] == "https://h/p?api-version=2"
    assert shown["agent.a.options.max_tokens"] == 5


@pytest.mark.parametrize(
    "name",
    [
        "apiKey",
        "apikey",
        "API_KEY",
        "X-Api-Key",
        "KEY",
        "AWS_SECRET_ACCESS_KEY",
        "secretAccessKey",
        "GITHUB_TOKEN",
        "clientSecret",
        "PASSWORD",
        "PGPASSWORD",
        "Authorization",
        "my_credentials",
        "AWS_ACCESS_KEY_ID",
        "NPM_AUTH",
        "GITHUB_PAT",
    ],
)
def test_the_name_of_a_secret_is_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "keybinds", "KEYBOARD", "TOKENIZERS_PARALLELISM", "monkey", "PATH", "SSH_AUTH_SOCK", ""],
)
def test_a_name_that_only_resembles_that_of_a_secret_is_not_recognised(name: str) -> None:
    assert not is_secret_name(name)


def test_a_child_process_gets_only_the_variables_that_programs_need(desk: ConfigDesk) -> None:
    needed = {
        "PATH": "/bin:/opt/python@3.11/bin",
        "HOME": "/h",
        "LANG": "C",
        "LC_ALL": "C",
        "CI": "",
        "JAVA_HOME": "/j",
        "VIRTUAL_ENV": "/v",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost,10.0.0.0/8",
    }
    desk.variables = needed | {
        "GITHUB_TOKEN": "t",
        "AWS_BEARER_TOKEN_BEDROCK": "t",
        "STRIPE_SK": "t",
        "DATABASE_URL": "postgres://h/d",
        "EDITOR": "vi",
        "GIT_CONFIG_VALUE_0": "Authorization: basic xyz",
        "LC_PASS": "t",
        "LD_PRELOAD": "/x.so",
        "DISPLAY": ":0",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "DOCKER_HOST": "unix:///x",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "ASYNCAGENTS_TRUST": "1",
        "ASYNCAGENTS_CONFIG_CONTENT": '{"default_agent": "plan"}',
    }
    assert child_environment(desk.environment, desk.load().config) == needed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "http://u:p@proxy:3128"),
        ("https_proxy", "http://token@proxy:3128"),
        ("ALL_PROXY", "u:p@proxy:3128"),
        ("GOPROXY", "https://u:p@h,direct"),
        ("CFLAGS", f"-DKEY={KEY}"),
        ("SHELL", f"/bin/{KEY}"),
        ("MANPATH", "sk-ant-api03-0123456789"),
        ("JAVA_HOME", "for {env:…}"),
        ("GOFLAGS", "-x=https://h/?sig=abc"),
    ],
)
def test_a_variable_that_programs_need_is_left_out_if_it_holds_a_secret(
    desk: ConfigDesk, name: str, value: str
) -> None:
    desk.variables = {"PATH": "/bin", name: value}
    options = {"baseURL": "http://{env:JAVA_HOME}", "apiKey": KEY}
    desk.write("opencode.json", {"provider": {"x": {"options": options}}})
    assert child_environment(desk.environment, desk.load().config) == {"PATH": "/bin"}


def test_a_child_process_gets_the_variables_that_the_user_names(desk: ConfigDesk) -> None:
    desk.variables = {
        "DATABASE_URL": "postgres://u:p@h/d",
        "GITHUB_TOKEN": "t",
        "APP_MODE": "test",
        "APP_TOKEN": "t",
        "APP_URL": "redis://:p@h",
        "HF_TOKEN": "hf_12345678",
        "OTHER": "x",
    }
    desk.write(
        "~/.config/asyncagents/asyncagents.json",
        {"pass_environment": ["APP_*"], "disabled_providers": ["huggingface"]},
    )
    desk.write("asyncagents.json", {"pass_environment": ["DATABASE_URL", "GITHUB_TOKEN", "HF_TOKEN"]})
    passed = child_environment(desk.environment, desk.load().config)
    assert set(passed) == {"DATABASE_URL", "GITHUB_TOKEN", "APP_MODE", "HF_TOKEN"}


def test_a_key_in_use_is_withheld_even_if_the_user_names_it(desk: ConfigDesk) -> None:
    names = {name for known in builtin_providers().values() for name in known.env}
    ours = {"ASYNCAGENTS_STORE": "s", "ASYNCAGENTS_TOKEN": "t", "OPENCODE_CONFIG_CONTENT": "{}"}
    desk.variables = {**dict.fromkeys(names, "k"), **ours, "COPY": f"user:{KEY}", "NAMED": "short"}
    provider = {"x": {"env": ["NAMED"], "options": {"baseURL": "http://x", "apiKey": KEY}}}
    wanted = [*names, *ours, "COPY", "NAMED", "*"]
    desk.write("asyncagents.json", {"provider": provider, "pass_environment": wanted})
    config = desk.load().config
    assert child_environment(desk.environment, config) == {}
    assert set(withheld_names(desk.environment, config)) == {*names, *ours, "COPY", "NAMED"}


def test_a_short_key_does_not_empty_the_childs_environment(desk: ConfigDesk) -> None:
    desk.variables = {"OPENAI_API_KEY": "x", "TERM": "xterm"}
    assert child_environment(desk.environment, desk.load().config) == {"TERM": "xterm"}


def test_a_project_that_is_not_trusted_passes_on_no_variable(tmp_path: Path) -> None:
    desk = ConfigDesk(tmp_path, trusted=False)
    desk.variables = {"PATH": "/bin", "DATABASE_URL": "postgres://u:p@h/d"}
    desk.write("asyncagents.json", {"pass_environment": ["DATABASE_URL"]})
    loaded = desk.load()
    assert child_environment(desk.environment, loaded.config) == {"PATH": "/bin"}
    assert any("pass_environment" in each for each in loaded.distrust)


@pytest.mark.parametrize("name", ["", "A=B", "A B", "${HOME}", "A\0"])
def test_an_invalid_name_in_pass_environment_is_an_error(desk: ConfigDesk, name: str) -> None:
    desk.write("asyncagents.json", {"pass_environment": [name]})
    with pytest.raises(ConfigError, match=r"pass_environment has .*which names no variable"):
        desk.load()
