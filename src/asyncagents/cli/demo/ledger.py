"""The world outside the demo: a file of effects that the store does not know."""

import os
from pathlib import Path

from msgspec import Struct

STOCK = 10
SOLD = 2


class Effect(Struct, frozen=True):
    """One line of the ledger: a tool, its effect key and its process."""

    tool: str
    key: str
    pid: int


class Ledger:
    """Records every effect of a tool, outside the store."""

    def __init__(self, data: Path) -> None:
        self._path = data / "ledger.txt"

    def write(self, tool: str, key: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{tool} {key} {os.getpid()}\n")

    def effects_of(self, tool: str) -> list[Effect]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        effects = (Effect(name, key, int(pid)) for name, key, pid in map(str.split, lines))
        return [effect for effect in effects if effect.tool == tool]

    def stock(self) -> int:
        """Return the stock; effects with the same key count once."""
        return STOCK - SOLD * len({effect.key for effect in self.effects_of("update_stock")})
