"""A file's content and fingerprint at the time it was read."""

import hashlib
import os

from msgspec import Struct


class Stamp(Struct, frozen=True):
    dev: int
    ino: int
    size: int
    mtime_ns: int
    sha256: str

    def still(self, now: os.stat_result) -> bool:
        """Return whether the file is unchanged by its stat result, without reading it."""
        seen = (self.dev, self.ino, self.size, self.mtime_ns)
        return seen == (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


class Content(Struct, frozen=True):
    data: bytes
    stamp: Stamp
    mode: int
    owner: tuple[int, int]


def stamp(about: os.stat_result, data: bytes) -> Stamp:
    digest = hashlib.sha256(data).hexdigest()
    return Stamp(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, digest)
