"""A file's content and fingerprint at the time it was read."""

import hashlib
import os

from msgspec import Struct


class Fingerprint(Struct, frozen=True):
    dev: int
    ino: int
    size: int
    mtime_ns: int
    sha256: str

    def matches(self, now: os.stat_result) -> bool:
        """Return whether the file is unchanged by its stat result, without reading it."""
        seen = (self.dev, self.ino, self.size, self.mtime_ns)
        return seen == (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


class FileState(Struct, frozen=True):
    data: bytes
    fingerprint: Fingerprint
    mode: int
    owner: tuple[int, int]


def fingerprint(about: os.stat_result, data: bytes) -> Fingerprint:
    digest = hashlib.sha256(data).hexdigest()
    return Fingerprint(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, digest)
