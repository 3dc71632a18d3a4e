"""Limits, prices and abilities: found under every spelling, priced like the source, below the config."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import pairwise

import pytest
from genai_prices import Usage, calc_price

from asyncagents.config.config import ModelConfig, ModelCost, ModelLimit, ProviderConfig
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.catalog.catalog import Catalog, LongPrice, ModelFacts, Price
from asyncagents.llm.catalog.data import find_family, load_catalog_data, normalize_model_id
from scripts.catalog import CATALOG, build, encoded

KB = 1024


def find(name: str, providers: dict[str, ProviderConfig] | None = None) -> ModelFacts:
    provider_id, _, model_id = name.partition("/")
    return Catalog(providers).find(ModelRef(provider_id=provider_id, model_id=model_id))


def spent(*, input: int = 0, output: int = 0, reasoning: int = 0, read: int = 0, write: int = 0) -> Tokens:
    cache = CacheTokens(read=read, write=write)
    return Tokens(input=input, output=output, reasoning=reasoning, cache=cache)


def every_model() -> Iterator[tuple[str, str]]:
    for provider_id, models in load_catalog_data().providers.items():
        for model_id in models:
            yield provider_id, model_id


def test_the_shipped_file_equals_the_output_of_the_generator() -> None:
    assert encoded(build()) == CATALOG.read_bytes(), "run scripts/catalog.py"


def test_generating_twice_in_processes_that_hash_differently_gives_the_same_bytes() -> None:
    script = (
        "import sys; from scripts.catalog import build, encoded; sys.stdout.buffer.write(encoded(build()))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            cwd=CATALOG.parents[4],
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == CATALOG.read_bytes()


def test_the_shipped_file_is_small_sorted_and_has_one_model_a_line() -> None:
    raw = CATALOG.read_bytes()
    assert len(raw) <= 400 * KB
    assert max(map(len, raw.splitlines())) <= 1000
    for models in load_catalog_data().providers.values():
        assert list(models) == sorted(models)
    assert list(load_catalog_data().families) == sorted(load_catalog_data().families)


def test_looking_a_model_up_imports_neither_pydantic_nor_the_price_list() -> None:
    script = (
        "import sys\n"
        "from asyncagents.llm.catalog.catalog import Catalog, ModelRef\n"
        "facts = Catalog().find(ModelRef(provider_id='anthropic', model_id='claude-sonnet-4-5'))\n"
        "assert facts.known\n"
        "assert not {'pydantic', 'genai_prices', 'pydantic_ai'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_listed_model_is_found_under_its_own_name_with_a_price() -> None:
    for provider_id, model_id in every_model():
        facts = find(f"{provider_id}/{model_id}")
        assert facts.known, model_id
        assert facts.price is not None, model_id
        assert all(first.above < second.above for first, second in pairwise(facts.long_prices)), model_id


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-opus-5-20261231", "anthropic/claude-opus-5"),
        ("anthropic/Claude-Sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("openai/gpt-5.5-2026-04-23", "openai/gpt-5.5"),
        ("google/models/gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("google/gemini-flash-latest", "google/gemini-3.8-flash"),
        ("x-ai/grok-4.7", "xai/grok-4.7"),
        ("together/moonshotai/kimi-k3", "togetherai/moonshotai/Kimi-K3"),
        ("openrouter/anthropic/claude-opus-4.5:nitro", "openrouter/anthropic/claude-opus-4.5"),
        ("google-vertex/claude-opus-4-5@20251101", "anthropic/claude-opus-4-5"),
        ("azure/gpt-5.4", "openai/gpt-5.4"),
        ("vercel/anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        (
            "amazon-bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "amazon-bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
    ],
)
def test_a_model_is_found_under_another_spelling(name: str, same: str) -> None:
    found, expected = find(name), find(same)
    assert found.price is not None
    assert found.price == expected.price
    assert found.context == expected.context
    assert found.output == expected.output
    assert found.tools == expected.tools


def test_the_most_specific_name_of_the_catalog_wins() -> None:
    assert find("openai/gpt-5-mini").price != find("openai/gpt-5").price
    assert find("amazon-bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0").price == Price(
        input=3, output=15, cache_read=0.3, cache_write=3.75
    )
    assert find("openai/gpt-4-1106-preview").output == 4096
    assert find("openai/gpt-4.1").output == 32768


def test_a_model_that_is_free_at_a_reseller_costs_nothing() -> None:
    free = find("openrouter/z-ai/glm-5.3:free")
    assert free.price == Price(input=0, output=0)
    assert free.output == find("openrouter/z-ai/glm-5.3").output


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5-20251101"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("accounts/fireworks/models/glm-4p7", "glm-4-7"),
        ("meta.llama3-1-70b-instruct-v1:0", "llama3-1-70b-instruct"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5-20251101"),
        ("gpt-3.5-turbo", "gpt-3-5-turbo"),
        ("llama3.3:70b", "llama3-3"),
    ],
)
def test_the_spelling_of_a_reseller_is_normalized(spelled: str, name: str) -> None:
    assert normalize_model_id(spelled) == name


def test_an_unknown_provider_gets_the_limits_of_the_family_and_no_price() -> None:
    facts = find("my-proxy/claude-sonnet-4-5")
    assert facts.context == 200_000
    assert facts.output == 64_000
    assert facts.images is True
    assert facts.price is None


def test_an_unknown_model_is_marked_so_and_has_no_limits_and_no_cost() -> None:
    facts = find("local/what-is-this")
    assert facts == ModelFacts(name="what-is-this", known=False)
    assert facts.cost(spent(input=1000, output=1000)) == 0


def test_the_config_overrides_the_catalog() -> None:
    model = ModelConfig(
        name="Mine",
        limit=ModelLimit(context=50_000, output=7_000),
        cost=ModelCost(input=1, output=2, cache_read=0.5),
        attachment=False,
        reasoning=False,
        tool_call=False,
        temperature=False,
    )
    facts = find(
        "anthropic/claude-sonnet-4-5", {"anthropic": ProviderConfig(models={"claude-sonnet-4-5": model})}
    )
    assert facts.name == "Mine"
    assert facts.context == 50_000
    assert facts.output == 7_000
    assert (facts.images, facts.pdf, facts.reasoning, facts.tools, facts.temperature) == (False,) * 5
    assert facts.price == Price(input=1, output=2, cache_read=0.5)
    assert facts.long_prices == ()


def test_values_that_the_config_leaves_out_come_from_the_catalog() -> None:
    model = ModelConfig(limit=ModelLimit(output=1_000))
    facts = find(
        "anthropic/claude-sonnet-4-5", {"anthropic": ProviderConfig(models={"claude-sonnet-4-5": model})}
    )
    assert facts.output == 1_000
    assert facts.context == 200_000
    assert facts.tools is True
    assert facts.long_prices


def test_a_name_of_the_config_is_looked_up_under_the_providers_own_name() -> None:
    models = {"smart": ModelConfig(id="claude-sonnet-4-5")}
    assert find("anthropic/smart", {"anthropic": ProviderConfig(models=models)}).output == 64_000


@pytest.mark.spec("C-07")
def test_the_cost_of_a_request_sums_its_five_kinds_of_tokens() -> None:
    facts = ModelFacts(name="m", price=Price(input=1, output=10, cache_read=0.1, cache_write=2))
    tokens = spent(input=1_000_000, output=100_000, reasoning=100_000, read=1_000_000, write=500_000)
    assert facts.cost(tokens) == pytest.approx(1 + 1 + 1 + 0.1 + 1)


def test_a_cache_without_a_price_costs_as_much_as_input() -> None:
    facts = ModelFacts(name="m", price=Price(input=2, output=0))
    assert facts.cost(spent(read=1_000_000, write=1_000_000)) == 4


@pytest.mark.parametrize(
    ("tokens", "price"),
    [
        (spent(input=200_000), 3),
        (spent(input=200_001), 6),
        (spent(input=1, read=200_000), 6),
        (spent(input=1, write=200_000), 6),
        (spent(input=1, output=300_000), 3),
    ],
)
def test_the_long_context_price_counts_from_all_that_was_sent(tokens: Tokens, price: float) -> None:
    only_fresh = Price(input=3, cache_read=0, cache_write=0)
    long = LongPrice(200_000, Price(input=6, cache_read=0, cache_write=0))
    facts = ModelFacts(name="m", price=only_fresh, long_prices=(long,))
    assert facts.cost(tokens) == pytest.approx(price * tokens.input / 1_000_000)


def test_a_model_with_a_long_context_price_also_has_its_base_price() -> None:
    facts = find("anthropic/claude-sonnet-4-5")
    assert facts.price == Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    long = Price(input=6, output=22.5, cache_read=0.6, cache_write=7.5)
    assert facts.long_prices == (LongPrice(200_000, long),)


def test_a_long_price_of_the_config_counts_above_200k() -> None:
    cost = ModelCost(input=1, output=1, context_over_200k=ModelCost(input=5, output=5))
    facts = find("mine/m", {"mine": ProviderConfig(models={"m": ModelConfig(cost=cost)})})
    assert facts.cost(spent(input=200_000)) == pytest.approx(0.2)
    assert facts.cost(spent(input=400_000)) == pytest.approx(2)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google", "openrouter", "xai", "zai"])
def test_the_cost_of_a_request_equals_that_of_the_price_list(provider: str) -> None:
    """Below and above every tier, with and without caches, on the day of the list."""
    theirs = {"xai": "x-ai"}.get(provider, provider)
    noon = datetime.fromisoformat(f"{load_catalog_data().as_of}T12:00:00").replace(tzinfo=UTC)
    for model_id in load_catalog_data().providers[provider]:
        if model_id.startswith("ft:"):  # stands for many names and is none itself
            continue
        for scale in (1_000, 400_000):
            tokens = spent(input=scale, output=scale // 2, read=scale // 4, write=scale // 8)
            usage = Usage(
                input_tokens=tokens.input + tokens.cache.read + tokens.cache.write,
                cache_read_tokens=tokens.cache.read,
                cache_write_tokens=tokens.cache.write,
                output_tokens=tokens.output,
            )
            said = calc_price(usage, model_id, provider_id=theirs, genai_request_timestamp=noon)
            ref = ModelRef(provider_id=provider, model_id=model_id)
            assert Catalog().cost(ref, tokens) == pytest.approx(float(said.total_price)), model_id


def test_the_family_with_the_longest_matching_pattern_is_found() -> None:
    for provider_id, models in load_catalog_data().providers.items():
        for model_id in models:
            name = normalize_model_id(model_id)
            names = {
                like: f"{provider_id}/{name}" if "/" in like else name
                for like in load_catalog_data().families
            }
            fitting = [like for like, each in names.items() if fnmatchcase(each, like)]
            best = max(fitting, key=lambda like: (len(like.replace("*", "")), like), default="")
            assert find_family(provider_id, model_id)[0] == best, model_id
