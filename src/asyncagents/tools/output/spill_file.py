"""Save a long output in a private file, up to a size limit."""

import os
from pathlib import Path
from typing import IO

from asyncagents.config.clock import SystemRng

# A program with endless output must not fill the disk.
MOST_SAVED = 256 * 1024 * 1024
PREFIX, SUFFIX = "output-", ".txt"
_NAMES = 2**96


class SpillFile:
    """A file created at the first write; after an error or at the size limit the rest is dropped."""

    def __init__(self, folder: Path, *, most: int = MOST_SAVED) -> None:
        self._folder = folder
        self._most = most
        self._written = 0
        self._file: IO[bytes] | None = None
        self._full = False
        self.path: str | None = None

    def write(self, data: bytes) -> None:
        try:
            if self._file is None and not self._full:
                self._open()
            self._write(data)
        except OSError:
            self._full = True
            self.close()

    def describe(self) -> str:
        """Say where the output is saved, for the note in the tool result."""
        if self.path is None:
            return "the whole could not be saved"
        if self._full:
            return f"the first {self._written} bytes are in {self.path}, the rest was not saved"
        return f"the whole is in {self.path}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Any tool that knows the name may read the file, so the name is random.
        path = self._folder / f"{PREFIX}{SystemRng().below(_NAMES):024x}{SUFFIX}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.path = str(path)
        self._file = os.fdopen(handle, "wb", buffering=0)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        rest = memoryview(data)[: self._most - self._written]
        self._full = self._full or len(rest) < len(data)
        while rest:
            written = self._file.write(rest) or 0
            self._written += written
            rest = rest[written:]
        if self._full:
            self.close()
