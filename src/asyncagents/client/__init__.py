"""Client for the HTTP API of a server: `open_client`."""

from asyncagents.client.client import Client, To, open_client
from asyncagents.client.events import BoardEvent
from asyncagents.domain.http_shapes import Health, SentFile, SessionState
from asyncagents.domain.task.board import BoardSnapshot, Removed, TaskGroup, TaskPage, TaskStats

__all__ = [
    "BoardEvent",
    "BoardSnapshot",
    "Client",
    "Health",
    "Removed",
    "SentFile",
    "SessionState",
    "TaskGroup",
    "TaskPage",
    "TaskStats",
    "To",
    "open_client",
]
