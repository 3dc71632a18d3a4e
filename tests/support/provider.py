"""A configuration for both wires of a local provider."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.config.config import Config, ModelConfig, ModelCost, ModelLimit, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.testing.provider import Provider

PROVIDER_KEY = "sk-local-secret"


PRICE = ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75)


def provider_config(provider: Provider, directory: Path, *, key: str | None = PROVIDER_KEY) -> Config:
    """Both wires of one provider; the model has a price."""
    model = ModelConfig(cost=PRICE, limit=ModelLimit(context=100_000, output=4_000), attachment=True)
    one = ProviderConfig(
        npm="@ai-sdk/openai-compatible",
        base_url=f"{provider.url}/v1",
        api_key=Secret(key) if key else None,
        models={"small": model, "large": model},
    )
    return Config(
        data_dir=directory, provider={"chat": one, "messages": replace(one, npm="@ai-sdk/anthropic")}
    )


each_wire = pytest.mark.parametrize("wire", ["chat", "messages"])
