"""Short names of models: the newest of its family, if its provider can be asked."""

from pathlib import Path

import pytest

from asyncagents.config.config import Config, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.alias import find_alias
from asyncagents.llm.catalog.catalog import Catalog
from asyncagents.llm.roster import DEFAULT_MODELS


def config(key: str | None) -> Config:
    secret = Secret(key) if key else None
    provider = ProviderConfig(api_key=secret, env=("ANTHROPIC_API_KEY",), key_required=True)
    return Config(data_dir=Path("/data"), provider={"anthropic": provider})


@pytest.mark.parametrize("alias", ["sonnet", "opus", "haiku"])
def test_an_alias_is_the_newest_of_its_family(alias: str) -> None:
    found = find_alias(config("key"), alias)
    assert found is not None
    assert found.provider_id == "anthropic"
    family = [name for name in Catalog().model_ids("anthropic") if alias in name]
    assert found.model_id == max(family, key=lambda name: [int(n) for n in name.split("-") if n.isdigit()])


def test_the_alias_sonnet_is_the_default_model_of_anthropic() -> None:
    assert find_alias(config("key"), "sonnet") == ModelRef(
        provider_id="anthropic", model_id=DEFAULT_MODELS["anthropic"]
    )


@pytest.mark.parametrize(("key", "alias"), [(None, "sonnet"), ("key", "inherit"), ("key", "claude")])
def test_an_unknown_alias_or_one_without_a_key_names_no_model(key: str | None, alias: str) -> None:
    assert find_alias(config(key), alias) is None
