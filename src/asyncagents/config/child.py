"""What a process that an agent starts may know of our environment: all but the keys."""

from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.fleet import STORE_VARIABLE
from asyncagents.config.known import known_providers
from asyncagents.config.place import FAMILIES
from asyncagents.config.veil import is_secret_name

# A file may refer to these with {env:…}; no program gets far without them.
ESSENTIAL = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
# Keys that neither their names nor a table give away.
OTHERS = frozenset({"AWS_BEARER_TOKEN_BEDROCK", STORE_VARIABLE})
# Shorter values would be found by chance in innocent variables.
SHORTEST_KEY = 8


def child_environment(environment: Environment, config: Config) -> dict[str, str]:
    """Our variables without any that holds a key, by its name, by its use in a file, or by what it holds."""
    named = _named(config)
    keys = [
        provider.api_key.reveal()
        for provider in config.provider.values()
        if provider.api_key and len(provider.api_key.reveal()) >= SHORTEST_KEY
    ]
    return {
        name: value
        for name, value in environment.variables.items()
        if name not in named and not is_secret_name(name) and not any(key in value for key in keys)
    }


def _named(config: Config) -> set[str]:
    names = {*OTHERS, *(f"{family.upper()}_CONFIG_CONTENT" for family in FAMILIES)}
    names.update(name for known in known_providers().values() for name in known.env)
    names.update(name for provider in config.provider.values() for name in provider.env)
    names.update(config.variables)
    return names - ESSENTIAL
