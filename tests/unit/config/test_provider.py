"""Providers: the known ones, the configured ones, and whose key was found where."""

import pytest

from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.load import ProviderKey
from asyncagents.config.secret import Secret
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk


def test_known_providers_are_there_without_any_file(desk: ConfigDesk) -> None:
    config = desk.load().config
    assert set(config.provider) == set(builtin_providers())
    assert config.provider["ollama"].base_url == "http://localhost:11434/v1"
    assert config.provider["lmstudio"].base_url == "http://127.0.0.1:1234/v1"
    assert config.provider["anthropic"].npm == "@ai-sdk/anthropic"


def test_every_known_provider_has_a_wire_an_endpoint_and_a_key_if_remote() -> None:
    for provider in builtin_providers().values():
        assert provider.npm.startswith("@ai-sdk/")
        assert provider.base_url or provider.npm != "@ai-sdk/openai-compatible"
        assert not (provider.base_url or "").endswith("/")
        assert provider.env or provider.local


@pytest.mark.parametrize(
    ("provider_id", "variable"),
    [(name, variable) for name, known in builtin_providers().items() for variable in known.env],
)
def test_a_key_in_the_environment_is_enough(desk: ConfigDesk, provider_id: str, variable: str) -> None:
    desk.variables = {variable: "sk-1"}
    loaded = desk.load()
    assert loaded.config.provider[provider_id].api_key == Secret("sk-1")
    assert loaded.keys[provider_id].found
    assert loaded.keys[provider_id].origin == f"${variable}"
    assert loaded.origins[f"provider.{provider_id}.options.apiKey".replace("llama.cpp", '"llama.cpp"')]


def test_the_first_variable_that_is_set_counts(desk: ConfigDesk) -> None:
    desk.variables = {"GEMINI_API_KEY": "second", "GOOGLE_GENERATIVE_AI_API_KEY": "first"}
    assert desk.load().config.provider["google"].api_key == Secret("first")


def test_a_missing_key_names_the_variables_that_were_searched(desk: ConfigDesk) -> None:
    keys = desk.load().keys
    assert keys["openai"] == ProviderKey(found=False, required=True, variables=("OPENAI_API_KEY",))
    assert keys["ollama"] == ProviderKey(found=False, required=False, variables=())
    assert not keys["lmstudio"].required


def test_a_key_in_a_file_wins_over_the_environment(desk: ConfigDesk) -> None:
    desk.variables = {"OPENAI_API_KEY": "sk-environment"}
    file = desk.write("opencode.json", {"provider": {"openai": {"options": {"apiKey": "sk-file"}}}})
    loaded = desk.load()
    assert loaded.config.provider["openai"].api_key == Secret("sk-file")
    assert loaded.keys["openai"].origin == str(file)


def test_an_empty_key_is_no_key_and_the_environment_is_asked(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"provider": {"openai": {"options": {"apiKey": "{env:GONE}"}}}})
    loaded = desk.load()
    assert loaded.config.provider["openai"].api_key is None
    assert not loaded.keys["openai"].found
    assert loaded.warnings == (
        f"{file}: provider.openai.options.apiKey uses {{env:GONE}}, which is not set: it counts as empty",
    )
    desk.variables = {"OPENAI_API_KEY": "sk-1"}
    assert desk.load().keys["openai"].origin == "$OPENAI_API_KEY"


def test_the_origin_of_a_key_names_the_file_and_its_variable(desk: ConfigDesk) -> None:
    desk.variables = {"MINE": "sk-1"}
    file = desk.write(
        "opencode.json", {"provider": {"x": {"options": {"apiKey": "{env:MINE}", "baseURL": "http://x"}}}}
    )
    assert desk.load().keys["x"].origin == f"{file} ({{env:MINE}})"


def test_blanks_around_a_key_are_no_part_of_it(desk: ConfigDesk) -> None:
    desk.variables = {"OPENAI_API_KEY": " sk-1\r\n"}
    assert desk.load().config.provider["openai"].api_key == Secret("sk-1")


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "sk 1", "sk-é", "sk-\x00"])
def test_a_key_with_an_invalid_character_is_refused_and_not_shown(desk: ConfigDesk, key: str) -> None:
    file = desk.write("opencode.json", {"provider": {"openai": {"options": {"apiKey": key}}}})
    with pytest.raises(ConfigError) as caught:
        desk.load()
    assert str(caught.value) == (
        f"{file}: provider.openai.options.apiKey holds an invalid character: copy the key again"
    )


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "abc def", "sk-é", "sk-\x00"])
def test_an_invalid_key_in_the_environment_is_ignored_with_a_warning(desk: ConfigDesk, key: str) -> None:
    desk.variables = {"GROQ_API_KEY": key, "ANTHROPIC_API_KEY": "sk-ant"}
    loaded = desk.load()
    assert loaded.config.provider["groq"].api_key is None
    assert loaded.config.provider["anthropic"].api_key == Secret("sk-ant")
    assert loaded.warnings == ("$GROQ_API_KEY holds an invalid character and is ignored: copy the key again",)


def test_the_next_variable_counts_where_the_first_holds_an_odd_key(desk: ConfigDesk) -> None:
    first, second, *_ = builtin_providers()["google"].env
    desk.variables = {first: "a b", second: "sk-2"}
    loaded = desk.load()
    assert loaded.config.provider["google"].api_key == Secret("sk-2")
    assert len(loaded.warnings) == 1


def test_a_configured_provider_is_laid_over_the_known_one(desk: ConfigDesk) -> None:
    desk.variables = {"WORK_KEY": "sk-work", "ANTHROPIC_API_KEY": "sk-home"}
    desk.write(
        "opencode.json",
        {"provider": {"anthropic": {"env": ["WORK_KEY"], "options": {"baseURL": "https://proxy/v1"}}}},
    )
    provider = desk.load().config.provider["anthropic"]
    assert provider.npm == "@ai-sdk/anthropic"
    assert provider.base_url == "https://proxy/v1"
    assert provider.api_key == Secret("sk-work")
    assert not provider.key_required


def test_a_provider_of_ones_own_takes_everything_it_needs_from_the_file(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "provider": {
                "fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Fake",
                    "env": ["FAKE_KEY"],
                    "options": {
                        "baseURL": "http://127.0.0.1:4901/v1",
                        "headers": {"X-Team": "a"},
                        "setCacheKey": True,
                        "extra": [1],
                    },
                    "whitelist": ["m"],
                    "models": {
                        "m": {
                            "id": "real-m",
                            "limit": {"context": 200000, "input": 150000, "output": 8192},
                            "cost": {
                                "input": 1,
                                "output": 2.5,
                                "context_over_200k": {"input": 2, "output": 5},
                            },
                            "tool_call": True,
                            "family": "f",
                            "variants": {"high": {"reasoningEffort": "high"}},
                        }
                    },
                }
            }
        },
    )
    loaded = desk.load()
    provider = loaded.config.provider["fake"]
    assert loaded.warnings == ()
    assert provider.headers == {"X-Team": "a"}
    assert provider.options == {"setCacheKey": True, "extra": [1]}
    assert provider.env == ("FAKE_KEY",)
    assert provider.key_required is True
    assert provider.whitelist == ("m",)
    model = provider.models["m"]
    assert model.id == "real-m"
    assert model.tool_call is True
    assert model.limit.context == 200000
    assert model.limit.input == 150000
    assert model.cost is not None
    assert model.cost.input == 1
    assert model.cost.output == 2.5
    assert model.cost.cache_read is None
    assert model.cost.context_over_200k is not None
    assert model.cost.context_over_200k.output == 5
    assert model.variants == {"high": {"reasoningEffort": "high"}}


@pytest.mark.parametrize(
    ("options", "first", "idle"),
    [
        ({}, None, None),
        ({"timeout": 900_000}, 900, 900),
        ({"timeout": False}, 0, 0),
        ({"timeout": 900_000, "chunkTimeout": 1500}, 900, 1.5),
        ({"timeout": 900_000, "chunkTimeout": False}, 900, 0),
        ({"chunkTimeout": 1500}, None, 1.5),
    ],
)
def test_a_timeout_is_milliseconds_or_false_for_a_provider_and_for_a_model(
    desk: ConfigDesk, options: dict[str, object], *, first: float | None, idle: float | None
) -> None:
    models = {"m": {"options": options | {"temperature": 1}}}
    desk.write("opencode.json", {"provider": {"openai": {"options": options, "models": models}}})
    provider = desk.load().config.provider["openai"]
    assert provider.deadlines.first_seconds == first
    assert provider.deadlines.idle_seconds == idle
    assert provider.options == {}
    model = provider.models["m"]
    assert model.deadlines.first_seconds == first
    assert model.deadlines.idle_seconds == idle
    assert model.options == {"temperature": 1}


def test_a_timeout_of_a_model_that_is_no_number_is_refused(desk: ConfigDesk) -> None:
    models = {"m": {"options": {"timeout": "soon"}}}
    desk.write("opencode.json", {"provider": {"openai": {"models": models}}})
    with pytest.raises(ConfigError, match=r"provider\.openai\.models\.m\.options\.timeout"):
        desk.load()


def test_api_is_another_name_for_the_url(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "provider": {
                "a": {"api": "http://a"},
                "b": {"api": "http://b", "options": {"baseURL": "http://c"}},
                "openai": {"api": "http://proxy"},
            }
        },
    )
    provider = desk.load().config.provider
    assert [provider[name].base_url for name in ("a", "b", "openai")] == [
        "http://a",
        "http://c",
        "http://proxy",
    ]


def test_a_url_without_a_scheme_is_refused(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"provider": {"x": {"options": {"baseURL": "localhost:11434"}}}})
    with pytest.raises(ConfigError) as caught:
        desk.load()
    assert str(caught.value) == f"{file}: provider.x.options.baseURL must begin with http:// or https://"


def test_a_provider_whose_name_is_nearly_a_known_one_is_warned_of(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"provider": {"antropic": {"options": {"apiKey": "k"}}}})
    assert desk.load().warnings == (
        f'{file}: provider.antropic has no options.baseURL: did you mean "anthropic"?',
    )


@pytest.mark.parametrize("provider_id", ["amazon-bedrock", "azure", "google-vertex", "github-copilot"])
def test_a_provider_that_only_its_adapter_knows_is_no_reason_to_warn(
    desk: ConfigDesk, provider_id: str
) -> None:
    desk.write(
        "opencode.json",
        {"provider": {provider_id: {"options": {"region": "eu"}}}, "model": f"{provider_id}/m"},
    )
    assert desk.load().warnings == ()
    desk.write("opencode.json", {"model": f"{provider_id}/m"})
    assert desk.load().warnings == ()
