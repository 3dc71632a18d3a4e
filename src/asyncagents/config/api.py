"""Settings of the HTTP server in the environment: whether it listens, and its port."""

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.errors import ConfigError

PORT = 5165
PORT_VARIABLE = "ASYNCAGENTS_API_PORT"
ENABLED_VARIABLE = "ASYNCAGENTS_API_ENABLED"
_HIGHEST = 65_535


class ApiConfig(Struct, frozen=True):
    enabled: bool = True
    port: int = PORT


def api_config(environment: Environment) -> ApiConfig:
    """Read the settings; raises `ConfigError` for an invalid port."""
    enabled = environment.get(ENABLED_VARIABLE).strip().lower() != "false"
    text = environment.get(PORT_VARIABLE).strip()
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= _HIGHEST):
        raise ConfigError(f"${PORT_VARIABLE} is {text[:40]!r}: set it to a number from 0 to {_HIGHEST}")
    return ApiConfig(enabled, int(text) if text else PORT)
