"""One process among many: the database they share, and what this one is for."""

import socket

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.errors import ConfigError

STORE_VARIABLE = "ASYNCAGENTS_STORE"
POOL_VARIABLE = "ASYNCAGENTS_POOL"
HEARTBEAT_VARIABLE = "ASYNCAGENTS_HEARTBEAT_SECONDS"
CONNECTIONS_VARIABLE = "ASYNCAGENTS_CONNECTIONS"
HEARTBEAT_SECONDS = 10.0
CONNECTIONS = 8
CONCURRENCY = 64


class Fleet(Struct, frozen=True, kw_only=True):
    store: str
    """The address of a PostgreSQL database."""
    pool: str
    """Of sessions that are made here. Machines that share directories share a pool; else each has its own."""
    pools: tuple[str, ...]
    """Whose sessions are run here."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """A process that has not been heard of for so long is dead."""
    connections: int = CONNECTIONS
    concurrency: int = CONCURRENCY
    """Sessions at work here at once."""
    kind: str = "library"


def fleet_config(environment: Environment) -> Fleet | None:
    """None: everything is in a file of this machine. Raises `ConfigError`."""
    store = environment.get(STORE_VARIABLE)
    if not store:
        return None
    if not store.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            f"{STORE_VARIABLE} is no address of a database: write postgresql://user@host/database, "
            "or leave it out to keep everything in the data directory"
        )
    pool = environment.get(POOL_VARIABLE) or f"host.{socket.gethostname()}"
    return Fleet(
        store=store,
        pool=pool,
        pools=(pool,),
        heartbeat_seconds=_number(environment, HEARTBEAT_VARIABLE, HEARTBEAT_SECONDS, least=1.0),
        connections=int(_number(environment, CONNECTIONS_VARIABLE, CONNECTIONS, least=2)),
    )


def _number(environment: Environment, name: str, default: float, *, least: float) -> float:
    text = environment.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not least <= value < 1e6:
        raise ConfigError(f"{name} is {text!r}: give a number, at least {least:g}")
    return value
