"""Client for the HTTP API of a server: `open_client`."""

from asyncagents.client.client import Client, To, open_client
from asyncagents.client.follow import BoardEvent
from asyncagents.domain.board import BoardSnapshot, Removed, TaskGroup, TaskPage, TaskStats
from asyncagents.domain.served import Health, SentFile, SessionState

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
