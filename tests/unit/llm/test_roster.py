"""What can be asked for, what is asked for by default, and a sentence for all that cannot be."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config, ModelConfig, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.llm.roster import DEFAULT_MODELS, Roster

KEY = Secret("sk-very-secret-0123456789")


def config(provider: dict[str, ProviderConfig] | None = None, **given: Any) -> Config:
    return Config(data_dir=Path("/nowhere"), provider=provider or {}, **given)


def ref(name: str, variant: str | None = None) -> ModelRef:
    provider_id, _, model_id = name.partition("/")
    return ModelRef(provider_id=provider_id, model_id=model_id, variant=variant)


MINE = ProviderConfig(
    npm="@ai-sdk/openai-compatible",
    base_url="http://mine.test/v1",
    models={"qwen3-coder": ModelConfig(variants={"fast": {"a": 1}})},
)


@pytest.mark.parametrize(
    ("name", "variant", "kind", "said"),
    [
        ("antropic/x", None, InvalidInput, "did you mean 'anthropic'? If not, configure it under"),
        ("zzzzzzzz/x", None, InvalidInput, "; configure it under provider.zzzzzzzz (a server reads"),
        ("mine/qwen3-code", None, InvalidInput, "did you mean 'qwen3-coder'?"),
        ("mine/gpt", None, InvalidInput, "there are qwen3-coder"),
        ("mine/qwen3-coder", "slow", InvalidInput, "has no variant 'slow'"),
        ("lost/m", None, InvalidInput, "set provider.lost.options.baseURL"),
        ("odd/m", None, InvalidInput, "use @ai-sdk/openai-compatible if"),
        ("azure/gpt-5", None, InvalidInput, "set provider.azure.options.baseURL"),
        ("openai/gpt-5", None, ModelError, "set OPENAI_API_KEY, or provider.openai.options.apiKey"),
        ("perplexity/sonar", None, ModelError, "set PERPLEXITY_API_KEY, or provider.perplexity"),
        ("off/m", None, InvalidInput, "is switched off"),
        ("picky/b", None, InvalidInput, "provider.picky.whitelist"),
        ("picky2/b", None, InvalidInput, "provider.picky2.blacklist"),
    ],
)
def test_an_unusable_model_is_refused_with_one_sentence(
    name: str, variant: str | None, kind: type[Exception], said: str
) -> None:
    roster = Roster(
        config(
            {
                "mine": MINE,
                "lost": ProviderConfig(),
                "odd": ProviderConfig(npm="some-package", base_url="http://odd.test"),
                "off": MINE,
                "picky": ProviderConfig(base_url="http://picky.test", whitelist=("a",)),
                "picky2": ProviderConfig(base_url="http://picky.test", blacklist=("b",)),
            },
            disabled_providers=("off",),
        )
    )
    with pytest.raises(kind) as caught:
        roster.check(ref(name, variant))
    text = str(caught.value)
    assert said in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("mine/qwen3-coder", None),
        ("mine/qwen3-coder", "fast"),
        ("anthropic/claude-sonnet-4-5", "high"),
        ("anthropic/claude-opus-4-8", "xhigh"),
        ("ollama/anything", None),
    ],
)
def test_a_usable_model_passes_the_check(name: str, variant: str | None) -> None:
    roster = Roster(config({"mine": MINE, "anthropic": ProviderConfig(api_key=KEY)}))
    roster.check(ref(name, variant))


def test_an_unknown_model_passes_the_check_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    roster = Roster(config({"xai": ProviderConfig(api_key=KEY)}))
    with caplog.at_level(logging.WARNING):
        roster.check(ref("xai/gork-4.7"))
        roster.check(ref("xai/gork-4.7"))
    [record] = caplog.records
    assert "did you mean 'grok-4.7'?" in record.getMessage()


WITHOUT_EXTRA = """
import sys
from pathlib import Path
sys.modules["pydantic_ai"] = None  # as if it were not installed
from asyncagents.config.config import Config, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ModelError
from asyncagents.llm.usable_model import UsableModel
from asyncagents.llm.roster import Roster
key = ProviderConfig(api_key=Secret("k"))
roster = Roster(Config(data_dir=Path("/nowhere"), provider={"google": key, "openai": key}))
try:
    roster.check(ModelRef(provider_id="google", model_id="gemini-3.8-flash"))
except ModelError as error:
    print(error)
for name in ("gpt-6.1-terra", "gpt-6.1-sol"):
    found = roster.offer(ModelRef(provider_id="openai", model_id=name), tools=True)
    print(found.wire.adapter if isinstance(found, UsableModel) else found.kind)
"""


def test_a_missing_extra_is_named_and_only_models_that_need_it_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "google/gemini-3.8-flash needs a package that is not installed: pip install 'asyncagents[providers]'",
        "openai",
        "extra",
    ]


def test_the_model_of_the_config_is_the_default() -> None:
    chosen = ref("mine/qwen3-coder")
    assert Roster(config({"anthropic": ProviderConfig(api_key=KEY)}, model=chosen)).default_model() == chosen


def test_the_default_model_is_of_the_first_listed_provider_with_a_key() -> None:
    given = dict.fromkeys(reversed(DEFAULT_MODELS), ProviderConfig(api_key=KEY))
    for provider_id, model_id in DEFAULT_MODELS.items():
        assert Roster(config(given)).default_model() == ref(f"{provider_id}/{model_id}")
        del given[provider_id]
    assert Roster(config(given)).default_model() is None


def test_an_unlisted_provider_of_the_config_gives_the_default_model() -> None:
    given = {"anthropic": ProviderConfig(api_key=KEY), "mine": MINE}
    assert Roster(config(given)).default_model() == ref("mine/qwen3-coder")


def test_every_default_model_is_known_with_a_price_and_can_call_tools() -> None:
    given = dict.fromkeys(DEFAULT_MODELS, ProviderConfig(api_key=KEY))
    roster = Roster(config(given))
    for provider_id, model_id in DEFAULT_MODELS.items():
        facts = roster.catalog.find(ref(f"{provider_id}/{model_id}"))
        assert facts.price is not None, provider_id
        assert facts.tools is not False, provider_id
        roster.check(ref(f"{provider_id}/{model_id}"))


def test_each_listed_model_names_the_reason_why_it_is_unavailable() -> None:
    roster = Roster(
        config({"mine": MINE, "xai": ProviderConfig(api_key=KEY)}, disabled_providers=("openrouter",))
    )
    by_ref = {choice.ref: choice for choice in roster.models()}
    assert by_ref[ref("mine/qwen3-coder")].available
    assert by_ref[ref("xai/grok-4.7")].available
    assert by_ref[ref("xai/grok-4.7")].facts.context == 500_000
    claude = by_ref[ref("anthropic/claude-sonnet-5-5")]
    assert not claude.available
    assert "ANTHROPIC_API_KEY" in (claude.why_not or "")
    assert not [one for one in by_ref if one.provider_id == "openrouter"]


def test_only_enabled_providers_are_offered_if_the_config_lists_some() -> None:
    roster = Roster(config({"mine": MINE}, enabled_providers=("mine",)))
    assert {choice.ref.provider_id for choice in roster.models()} == {"mine"}
