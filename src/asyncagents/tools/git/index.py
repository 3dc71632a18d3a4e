"""Read the names of tracked files from git's index, without running git."""

import os
from bisect import bisect_left
from functools import cached_property
from pathlib import Path

from asyncagents.tools.file.path import OutsidePath, ResolvedPath
from asyncagents.tools.git.head import find_repository, read_small_file

MOST_BYTES = 64 * 1024 * 1024
_SIGNATURE = b"DIRC"
_HEADER_BYTES = 12
_STAT_BYTES = 40
"""Bytes of an index entry before its hash."""
_MODE_OFFSET = 24
_KINDS = frozenset({0o04, 0o10, 0o12, 0o16})
"""A sparse folder, a file, a link, another repository."""
_FOLDER = 0o04
_HASH_SIZES = (20, 32)
_EXTENDED = 0x4000
_LENGTH = 0x0FFF


class TrackedFiles:
    """The tracked files of the repository at a project's root; the index is read at the first query."""

    def __init__(self, place: ResolvedPath) -> None:
        self._root = None if isinstance(place, OutsidePath) else place.root

    def holds(self, parts: tuple[str, ...], *, folder: bool) -> bool:
        """Return whether git tracks this file, or a file below this folder."""
        name = os.fsencode("/".join(parts)) + (b"/" if folder else b"")
        at = bisect_left(self._names, name)
        if at == len(self._names):
            return False
        return self._names[at].startswith(name) if folder else self._names[at] == name

    @cached_property
    def _names(self) -> list[bytes]:
        repository = find_repository(Path(self._root)) if self._root is not None else None
        if repository is None:
            return []
        return index_names(read_small_file(repository.folder / "index", MOST_BYTES))


def index_names(data: bytes) -> list[bytes]:
    """Return the sorted names of an index; none if it is invalid or a split index."""
    if data[:4] != _SIGNATURE or len(data) < _HEADER_BYTES:
        return []
    for size in _HASH_SIZES:  # the configuration names the hash, but it is not read here
        try:
            return sorted(_parse_names(data, size))
        except (IndexError, ValueError):
            continue
    return []


def _parse_names(data: bytes, hash_size: int) -> list[bytes]:
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in {2, 3, 4} or count > len(data) // (_STAT_BYTES + hash_size):
        raise ValueError(version)
    at, names, before = _HEADER_BYTES, list[bytes](), b""
    for _ in range(count):
        kind = data[at + _MODE_OFFSET + 2] >> 4
        if kind not in _KINDS:
            raise ValueError(kind)
        flags_at = at + _STAT_BYTES + hash_size
        flags = data[flags_at] << 8 | data[flags_at + 1]
        start = flags_at + (4 if flags & _EXTENDED else 2)
        if version == 4:
            cut_length, start = _read_number(data, start)
            end = data.index(b"\0", start)
            name = before[: max(0, len(before) - cut_length)] + data[start:end]
            at, before = end + 1, name
        else:
            end = start + (flags & _LENGTH)
            if flags & _LENGTH == _LENGTH or data[end]:
                end = data.index(b"\0", start)
            name = data[start:end]
            at += (end - at + 8) & ~7
        if kind != _FOLDER:
            names.append(name)
    if data.startswith(b"link", at):
        raise ValueError("split")
    return names


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the index after it."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1) << 7 | data[at] & 127
    return value, at + 1
