"""What docs/configuration.md says is so."""

import re
from pathlib import Path

import pytest

from asyncagents.config.config import Config
from asyncagents.config.file import jsonc
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.shape import ConfigFile
from asyncagents.llm.roster import Roster
from tests.support.environment import ConfigDesk

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```jsonc\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_loads_without_a_warning(desk: ConfigDesk, example: str) -> None:
    desk.variables = {"WORK_KEY": "sk-1"}
    desk.write("~/.keys/some", "sk-2")
    desk.write("asyncagents.jsonc", example)
    loaded = desk.load()
    assert loaded.warnings == ()
    for provider_id in jsonc.parse(example, "example").get("provider", {}):
        assert loaded.config.provider[provider_id].api_key is not None


def test_the_page_names_every_known_provider() -> None:
    assert [name for name in builtin_providers() if f"`{name}`" not in PAGE] == []


def test_the_page_names_the_providers_of_which_no_model_is_listed() -> None:
    roster = Roster(Config(data_dir=Path("/nowhere")))
    sentence = PAGE.split("in its catalog. For")[1].split(" on this machine it has none")[0]
    unlisted = {
        name
        for name in roster.providers
        if not roster.models([name]) and not (name in builtin_providers() and builtin_providers()[name].local)
    }
    assert set(re.findall(r"`([^`]+)`", sentence)) == unlisted


def test_the_page_names_every_key_that_counts() -> None:
    counting = [name for name in ConfigFile.__struct_encode_fields__ if name not in _inert()]
    assert [name for name in counting if f"`{name}`" not in PAGE] == []


def _inert() -> set[str]:
    text = Path(__file__).parents[3].joinpath("docs", "config.schema.json").read_text(encoding="utf-8")
    properties = jsonc.parse(text, "schema")["$defs"]["ConfigFile"]["properties"]
    return {name for name, value in properties.items() if "changes nothing" in value.get("description", "")}
