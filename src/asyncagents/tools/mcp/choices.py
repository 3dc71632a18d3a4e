"""MCP servers that people enabled, disabled or added at run time; kept in memory only."""

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.tools.mcp.client import Wanted

MOST_DIRECTORIES = 1_000


class _Choice(Struct):
    on: dict[str, bool] = field(default_factory=dict)
    brought: dict[str, Wanted] = field(default_factory=dict)


class Choices:
    """Choices by directory; beyond `MOST_DIRECTORIES` the directory changed longest ago is dropped."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, _Choice] = OrderedDict()

    def note(self, directory: str, name: str, chosen: Wanted | bool) -> None:
        choice = self._made.setdefault(directory, _Choice())
        self._made.move_to_end(directory)
        if isinstance(chosen, bool):
            choice.on[name] = chosen
        else:
            choice.on.pop(name, None)
            choice.brought[name] = chosen
        while len(self._made) > MOST_DIRECTORIES:
            self._made.popitem(last=False)

    def known(self, directory: str, written: Sequence[Wanted]) -> tuple[Wanted, ...]:
        """Return the configured servers, replaced or extended by the added ones, sorted by name."""
        choice = self._made.get(directory)
        if choice is None:
            return tuple(written)
        laid = {**{each.name: each for each in written}, **choice.brought}
        return tuple(_switched(each, choice.on.get(name)) for name, each in sorted(laid.items()))

    def enabled(self, directory: str, written: Sequence[Wanted]) -> tuple[Wanted, ...]:
        return tuple(each for each in self.known(directory, written) if each.config.enabled)


def _switched(server: Wanted, on: bool | None) -> Wanted:
    return server if on is None else replace(server, config=replace(server.config, enabled=on))
