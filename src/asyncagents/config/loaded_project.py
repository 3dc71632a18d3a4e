"""The config and agents of one directory, read before a runtime is opened."""

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.config.markdown.agents import FoundAgents


class LoadedProject(Struct, frozen=True, kw_only=True):
    """Files of a directory that a caller has just read, so that the runtime need not read them again."""

    directory: str
    read_at: int
    """When they were read, in ms since the epoch; they are used only for a short time."""
    config: Config
    trusted: bool
    agents: FoundAgents
