"""Client for the HTTP API of a server: `open_client`."""

import warnings as _warnings

from asyncagents.client.client import Client, ClientPromptOptions, open_client
from asyncagents.client.events import BoardEvent
from asyncagents.domain.http_shapes import Health, SentFile, SessionState
from asyncagents.domain.task.board import BoardSnapshot, TaskGroup, TaskPage, TaskRemoved, TaskStats

__all__ = [
    "BoardEvent",
    "BoardSnapshot",
    "Client",
    "ClientPromptOptions",
    "Health",
    "SentFile",
    "SessionState",
    "TaskGroup",
    "TaskPage",
    "TaskRemoved",
    "TaskStats",
    "open_client",
]

_RENAMED = {"Removed": "TaskRemoved", "To": "ClientPromptOptions"}


def __getattr__(name: str) -> object:
    """Return a renamed class under its former name, with a warning."""
    if name in _RENAMED:
        text = f"asyncagents.client.{name} is called asyncagents.client.{_RENAMED[name]} now"
        _warnings.warn(text, DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
