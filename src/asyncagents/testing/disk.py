"""A simulated disk: a power cut may lose, tear or reorder writes that were not synced."""

from dataclasses import dataclass, field
from itertools import pairwise

from asyncagents.testing.clock import SeededRng

SECTOR = 512
LOST_PERCENT = 50
TORN_PERCENT = 10


@dataclass(frozen=True)
class DiskWrite:
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> list["DiskWrite"]:
        """Split the write into sectors, which the disk writes one by one."""
        end = self.offset + len(self.data)
        bounds = [self.offset, *range(self.offset // SECTOR * SECTOR + SECTOR, end, SECTOR), end]
        return [
            DiskWrite(start, self.data[start - self.offset :][: stop - start])
            for start, stop in pairwise(bounds)
        ]


@dataclass(frozen=True)
class DiskTruncate:
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))

    def sectors(self) -> list["DiskTruncate"]:
        return [self]


@dataclass(eq=False)
class Inode:
    """A file: its content as programs see it, its durable content, and the unsynced changes."""

    durable: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    unsynced: list[DiskWrite | DiskTruncate] = field(default_factory=list)

    def change(self, change: DiskWrite | DiskTruncate) -> None:
        change.apply(self.content)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            change.apply(self.durable)
        self.unsynced.clear()

    def after_cut(self, rng: SeededRng) -> bytes:
        content = bytearray(self.durable)
        for change in self.unsynced:
            fate = rng.below(100)
            if fate < TORN_PERCENT:
                for piece in change.sectors():
                    if rng.below(2):
                        piece.apply(content)
            elif fate >= TORN_PERCENT + LOST_PERCENT:
                change.apply(content)
        return bytes(content)


class SimulatedDisk:
    """One directory: its files, and which of their names are durable."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._names = {name: Inode(bytearray(data), bytearray(data)) for name, data in files.items()}
        self._history: dict[str, list[Inode | None]] = {name: [inode] for name, inode in self._names.items()}

    def find(self, name: str) -> Inode | None:
        return self._names.get(name)

    def create(self, name: str) -> Inode:
        inode = self._names[name] = Inode()
        self._history.setdefault(name, [None]).append(inode)
        return inode

    def delete(self, name: str) -> None:
        del self._names[name]
        self._history[name].append(None)

    def sync_names(self) -> None:
        """Sync the directory: every create and delete so far becomes durable."""
        self._history = {name: [self._names.get(name)] for name in self._history}

    def after_cut(self, rng: SeededRng) -> dict[str, bytes]:
        """Return the files after a reboot. The changes of a name survive in order, up to a random one."""
        found: dict[str, bytes] = {}
        for name, states in sorted(self._history.items()):
            inode = states[rng.below(len(states))]
            if inode is not None:
                found[name] = inode.after_cut(rng)
        return found
