"""Checks the configuration that a plugin's `config` hook returns."""

from pathlib import Path
from typing import Any

import msgspec

from asyncagents.config.config import Config
from asyncagents.config.secret import Secret


def check_config(left: object) -> Config:
    """Return the configuration with every value checked. Raises `ValidationError` or `TypeError`."""
    if not isinstance(left, Config):
        raise TypeError(f"got {type(left).__name__}")
    keys: list[Secret] = []

    def encode_value(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if not isinstance(value, Secret):
            raise TypeError(f"a configuration cannot hold a {type(value).__name__}")
        keys.append(value)
        return len(keys) - 1

    def decode_value(kind: type, value: Any) -> Any:
        if kind is Path and isinstance(value, str):
            return Path(value)
        if kind is not Secret or not isinstance(value, int):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return keys[value]

    return msgspec.convert(msgspec.to_builtins(left, enc_hook=encode_value), Config, dec_hook=decode_value)
