"""The JSON Schema of configuration files for editors, published as `docs/config.schema.json`."""

import json
from typing import Any

import msgspec

from asyncagents.config.file.shape import ConfigFile


def config_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of asyncagents",
        "allowComments": True,
        "allowTrailingCommas": True,
        **msgspec.json.schema(ConfigFile),
    }


def config_schema_text() -> str:
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
