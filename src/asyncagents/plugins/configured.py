"""A configuration as a hook left it: types are promised, not checked, and a whole directory depends on it."""

from pathlib import Path
from typing import Any

import msgspec

from asyncagents.config.config import Config
from asyncagents.config.secret import Secret


def read_config(left: object) -> Config:
    """The same with every value of its own type. Raises `ValidationError` or `TypeError` for what is none."""
    if not isinstance(left, Config):
        raise TypeError(f"this is {type(left).__name__}")
    keys: list[Secret] = []

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if not isinstance(value, Secret):
            raise TypeError(f"a configuration has no {type(value).__name__} in it")
        keys.append(value)
        return len(keys) - 1

    def meant(kind: type, value: Any) -> Any:
        if kind is Path and isinstance(value, str):
            return Path(value)
        if kind is not Secret or not isinstance(value, int):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return keys[value]

    return msgspec.convert(msgspec.to_builtins(left, enc_hook=plain), Config, dec_hook=meant)
