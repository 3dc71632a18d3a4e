"""MCP servers that people enabled, disabled or added at run time; kept in memory only."""

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.tools.mcp.client import ServerSpec

MOST_DIRECTORIES = 1_000


class _Choice(Struct):
    enabled: dict[str, bool] = field(default_factory=dict)
    added: dict[str, ServerSpec] = field(default_factory=dict)


class ServerChoices:
    """Choices by directory; beyond `MOST_DIRECTORIES` the directory changed longest ago is dropped."""

    def __init__(self) -> None:
        self._by_directory: BoundedDict[str, _Choice] = BoundedDict(MOST_DIRECTORIES)

    def record(self, directory: str, name: str, chosen: ServerSpec | bool) -> None:
        choice = self._by_directory[directory] = self._by_directory.get(directory) or _Choice()
        if isinstance(chosen, bool):
            choice.enabled[name] = chosen
        else:
            choice.enabled.pop(name, None)
            choice.added[name] = chosen

    def known_servers(self, directory: str, written: Sequence[ServerSpec]) -> tuple[ServerSpec, ...]:
        """Return the configured servers, replaced or extended by the added ones, sorted by name."""
        choice = self._by_directory.get(directory)
        if choice is None:
            return tuple(written)
        laid = {**{each.name: each for each in written}, **choice.added}
        return tuple(_apply_switch(each, choice.enabled.get(name)) for name, each in sorted(laid.items()))

    def enabled_servers(self, directory: str, written: Sequence[ServerSpec]) -> tuple[ServerSpec, ...]:
        return tuple(each for each in self.known_servers(directory, written) if each.config.enabled)


def _apply_switch(server: ServerSpec, on: bool | None) -> ServerSpec:
    return server if on is None else replace(server, config=replace(server.config, enabled=on))
