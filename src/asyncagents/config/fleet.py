"""Settings of a process that shares a PostgreSQL database with others."""

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
    """The URL of a PostgreSQL database."""
    pool: str
    """The pool of sessions created here. Only machines that share directories may share a pool."""
    pools: tuple[str, ...]
    """The pools whose sessions run here."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    """A process without a heartbeat for this long counts as dead."""
    connections: int = CONNECTIONS
    concurrency: int = CONCURRENCY
    """The most sessions that run here at once."""
    kind: str = "library"


def fleet_config(environment: Environment) -> Fleet | None:
    """Read the settings; None: the store is an SQLite file. Raises `ConfigError`."""
    store = environment.get(STORE_VARIABLE)
    if not store:
        return None
    if not store.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            f"{STORE_VARIABLE} is not a database URL: write postgresql://user@host/database, "
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
