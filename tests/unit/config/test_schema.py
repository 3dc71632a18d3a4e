"""The published schema is the shape that files are checked against."""

import json
from pathlib import Path
from typing import Any

from asyncagents.config.file.schema import config_schema, config_schema_text
from asyncagents.config.file.shape import ConfigFile

PUBLISHED = Path(__file__).parents[3] / "docs" / "config.schema.json"


def test_the_published_schema_is_up_to_date() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == config_schema_text(), (
        "write it anew: asyncagents config --schema > docs/config.schema.json"
    )


def test_the_schema_has_every_key_and_asks_for_none() -> None:
    top = config_schema()["$defs"]["ConfigFile"]
    assert list(top["properties"]) == list(ConfigFile.__struct_encode_fields__)
    assert top["required"] == []
    assert top["additionalProperties"] is False


def test_every_reference_in_the_schema_leads_somewhere() -> None:
    whole = config_schema()
    references = _references(whole)
    assert {f"#/$defs/{name}" for name in whole["$defs"]} == references


def test_the_schema_is_json() -> None:
    assert json.loads(config_schema_text()) == config_schema()


def _references(value: Any) -> set[str]:
    match value:
        case {"$ref": str(reference), **rest}:
            return {reference} | _references(rest)
        case dict():
            return set().union(*map(_references, value.values()))
        case list():
            return set().union(*map(_references, value))
        case _:
            return set()
