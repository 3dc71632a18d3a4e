"""A key is shown nowhere and given to nobody."""

import json

import pytest

from asyncagents.config.child import child_environment
from asyncagents.config.known import known_providers
from asyncagents.config.veil import is_secret_name
from tests.unit.config.build import Desk

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
def test_no_setting_and_no_repr_shows_a_key(desk: Desk, document: dict[str, object]) -> None:
    desk.variables = {"K": KEY, "MY_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    desk.write("k", KEY)
    desk.write("asyncagents.json", document)
    loaded = desk.load()
    assert "***" in [setting.value for setting in loaded.settings if setting.key.split(".")[1:2] == ["x"]]
    for key in (KEY, OTHER):
        assert key not in json.dumps([setting.value for setting in loaded.settings])
        assert key not in repr(loaded)


@pytest.mark.spec("P-06")
def test_the_secrets_of_services_that_send_results_are_not_shown(desk: Desk) -> None:
    desk.variables = {"HOOK": OTHER}
    desk.write("asyncagents.json", {"async_tools": {"secrets": [OTHER, "{env:HOOK}"]}})
    loaded = desk.load()
    shown = [setting.value for setting in loaded.settings if setting.key == "async_tools.secrets"]
    assert [secret.reveal() for secret in loaded.config.async_tools.secrets] == [OTHER, OTHER]
    assert shown == ["***"]
    assert OTHER not in repr(loaded)


def test_the_options_of_a_plugin_are_not_shown_if_there_is_a_key_among_them(desk: Desk) -> None:
    desk.write("opencode.json", {"plugin": [["p", {"deep": {"token": OTHER}}]]})
    loaded = desk.load()
    assert [setting.value for setting in loaded.settings if setting.key == "plugin"] == ["***"]


def test_what_is_no_secret_is_shown(desk: Desk) -> None:
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
def test_a_name_gives_a_secret_away(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "keybinds", "KEYBOARD", "TOKENIZERS_PARALLELISM", "monkey", "PATH", "SSH_AUTH_SOCK", ""],
)
def test_a_name_that_only_sounds_like_it_does_not(name: str) -> None:
    assert not is_secret_name(name)


def test_a_child_gets_everything_but_the_keys(desk: Desk) -> None:
    harmless = {"PATH": "/bin", "HOME": "/h", "LANG": "C", "EDITOR": "vi", "EMPTY": "", "MAX_TOKENS": "5"}
    desk.variables = harmless | {
        "GITHUB_TOKEN": "t",
        "AWS_BEARER_TOKEN_BEDROCK": "t",
        "DB_PASSWORD": "t",
        "STRIPE_SECRET": "t",
        "some_key": "t",
        "COMPANY_LOGIN": KEY,
        "LOGIN_LINE": f"user:{KEY}",
        "CONFIGURED": "t",
        "NAMED_IN_ENV": "t",
        "ASYNCAGENTS_CONFIG_CONTENT": '{"default_agent": "plan"}',
    }
    desk.write(
        "opencode.json",
        {
            "provider": {
                "x": {"env": ["NAMED_IN_ENV"], "options": {"baseURL": "http://x", "apiKey": KEY}},
                "y": {"options": {"baseURL": "http://{env:CONFIGURED}{env:PATH}"}},
            }
        },
    )
    assert child_environment(desk.environment, desk.load().config) == harmless


def test_no_variable_of_a_known_provider_reaches_a_child(desk: Desk) -> None:
    names = {name for known in known_providers().values() for name in known.env}
    desk.variables = dict.fromkeys(names, "k") | {"A": "1"}
    assert child_environment(desk.environment, desk.load().config) == {"A": "1"}


def test_a_short_key_does_not_empty_the_childs_environment(desk: Desk) -> None:
    desk.variables = {"OPENAI_API_KEY": "x", "BOX": "xyz"}
    assert child_environment(desk.environment, desk.load().config) == {"BOX": "xyz"}
