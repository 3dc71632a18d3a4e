"""The rest of the configuration: models, agents, commands, MCP servers, compaction."""

from typing import Any

import pytest

from asyncagents.config.config import CommandConfig, CompactionConfig, McpConfig
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk


def refusal_of(desk: ConfigDesk, data: dict[str, Any]) -> str:
    file = desk.write("opencode.json", data)
    with pytest.raises(ConfigError) as caught:
        desk.load()
    return str(caught.value).removeprefix(f"{file}: ")


def test_a_configuration_without_files_has_the_defaults(desk: ConfigDesk) -> None:
    loaded = desk.load()
    assert loaded.config.model is None
    assert loaded.config.compaction == CompactionConfig(auto=True, prune=True)
    assert loaded.warnings == ()
    assert set(loaded.origins.values()) == {"default"}


def test_a_model_is_a_provider_and_all_that_follows_the_first_slash(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"model": "openrouter/meta/llama-4", "small_model": "ollama/qwen3:8b"})
    config = desk.load().config
    assert config.model == ModelRef(provider_id="openrouter", model_id="meta/llama-4")
    assert config.small_model == ModelRef(provider_id="ollama", model_id="qwen3:8b")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            {"model": "claude-opus-4"},
            'model must be written as provider/model: did you mean "anthropic/claude-opus-4"?',
        ),
        (
            {"small_model": "gpt-9"},
            'small_model must be written as provider/model: did you mean "openai/gpt-9"?',
        ),
        (
            {"model": "tiny", "provider": {"mine": {"api": "http://m", "models": {"tiny": {}}}}},
            'model must be written as provider/model: did you mean "mine/tiny"?',
        ),
        ({"model": "zzz"}, 'model must be written as provider/model, as in "anthropic/claude-sonnet-4-5"'),
        (
            {"model": "openai/"},
            'model must be written as provider/model, as in "anthropic/claude-sonnet-4-5"',
        ),
        (
            {"agent": {"my agent": {"model": "/grok-4"}}},
            'agent."my agent".model must be written as provider/model: did you mean "xai/grok-4"?',
        ),
    ],
)
def test_a_model_without_a_provider_is_refused_with_a_suggestion(
    desk: ConfigDesk, data: dict[str, Any], error: str
) -> None:
    assert refusal_of(desk, data) == error


def test_a_model_of_an_unknown_provider_is_warned_of(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"model": "opena/gpt-5"})
    assert desk.load().warnings == (
        f'{file}: model names the unknown provider "opena": did you mean "openai"?',
    )


def test_an_agent_has_all_its_fields(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "agent": {
                "review": {
                    "description": "Reads",
                    "mode": "subagent",
                    "model": "openai/gpt-5",
                    "variant": "high",
                    "temperature": 0,
                    "top_p": 0.5,
                    "steps": 7,
                    "prompt": "p",
                    "hidden": True,
                    "disable": False,
                    "permission": {"edit": "deny", "bash": {"*": "ask", "git *": "allow"}},
                }
            },
            "default_agent": "review",
        },
    )
    config = desk.load().config
    agent = config.agent["review"]
    assert config.default_agent == "review"
    assert agent.description == "Reads"
    assert agent.mode == "subagent"
    assert agent.variant == "high"
    assert agent.steps == 7
    assert agent.model == ModelRef(provider_id="openai", model_id="gpt-5")
    assert agent.temperature == 0
    assert agent.top_p == 0.5
    assert agent.hidden is True
    assert agent.disable is False
    assert agent.permission == {"edit": "deny", "bash": {"*": "ask", "git *": "allow"}}
    assert agent.options == {}


def test_a_command_stands_for_a_prompt(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json", {"command": {"t": {"template": "Run $1", "model": "openai/gpt-5", "subtask": True}}}
    )
    assert desk.load().config.command["t"] == CommandConfig(
        template="Run $1", model=ModelRef(provider_id="openai", model_id="gpt-5"), subtask=True
    )


def test_a_command_may_be_split_over_files_but_needs_a_template(desk: ConfigDesk) -> None:
    error = refusal_of(desk, {"command": {"t": {"agent": "plan"}}})
    assert error == "command.t has no template: write the prompt it stands for"
    desk.write("asyncagents.json", {"command": {"t": {"template": "x"}}})
    assert desk.load().config.command["t"] == CommandConfig(template="x", agent="plan")


def test_mcp_servers_are_local_or_remote(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "mcp": {
                "l": {"type": "local", "command": ["npx", "s"], "environment": {"A": "1"}, "timeout": 2500},
                "r": {
                    "type": "remote",
                    "url": "https://r",
                    "headers": {"X": "y"},
                    "enabled": False,
                    "oauth": {},
                },
            }
        },
    )
    assert desk.load().config.mcp == {
        "l": McpConfig(type="local", command=("npx", "s"), environment={"A": "1"}, timeout_seconds=2.5),
        "r": McpConfig(type="remote", url="https://r", headers={"X": "y"}, enabled=False),
    }


@pytest.mark.parametrize(
    ("server", "error"),
    [
        ({"command": ["x"]}, 'mcp.s has no type: write "local" with a command or "remote" with a url'),
        ({"type": "local"}, "mcp.s has no command: a local server needs one"),
        ({"type": "remote", "command": ["x"]}, "mcp.s has no url: a remote server needs one"),
        ({"type": "remote", "url": "r.example"}, "mcp.s.url must begin with http:// or https://"),
    ],
)
def test_an_incomplete_or_invalid_mcp_server_is_refused(
    desk: ConfigDesk, server: dict[str, Any], error: str
) -> None:
    assert refusal_of(desk, {"mcp": {"s": server}}) == error


def test_an_mcp_server_that_is_only_switched_off_may_be_defined_elsewhere(desk: ConfigDesk) -> None:
    file = desk.write("asyncagents.json", {"mcp": {"s": {"enabled": False}}})
    loaded = desk.load()
    assert loaded.config.mcp == {}
    assert loaded.warnings == (f"{file}: mcp.s is defined nowhere: write its type",)
    desk.write("opencode.json", {"mcp": {"s": {"type": "local", "command": ["x"]}}})
    loaded = desk.load()
    assert not loaded.config.mcp["s"].enabled
    assert loaded.warnings == ()


def test_compaction_and_experimental_are_read(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {"compaction": {"prune": False, "reserved": 9}, "experimental": {"continue_loop_on_deny": True}},
    )
    loaded = desk.load()
    assert loaded.config.compaction == CompactionConfig(prune=False, reserved=9)
    assert loaded.origins["compaction.auto"] == "default"
    assert loaded.config.experimental == {"continue_loop_on_deny": True}
