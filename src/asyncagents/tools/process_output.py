"""What a process prints: little of it in memory, the whole in a file when it is long."""

import codecs
import os
import tempfile
from pathlib import Path
from typing import IO

# A program that prints for ever must not fill the disk.
MOST_SAVED = 256 * 1024 * 1024


class Output:
    """Head and tail of a text; the file is made when both are full."""

    def __init__(self, folder: Path, cap: int, *, most_saved: int = MOST_SAVED) -> None:
        self._folder = folder
        self._half = max(1, cap // 2)
        self._most_saved = most_saved
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._early = bytearray()
        self._head = ""
        self._tail = ""
        self._dropped = 0
        self._saved = 0
        self._file: IO[bytes] | None = None
        self._full = False
        self.path: str | None = None

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """Keep it, and give back what it says."""
        text = self._decoder.decode(data, last).replace("\0", "�")
        room = self._half - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:] if room > 0 else self._tail + text
        self._dropped += max(0, len(tail) - self._half)
        self._tail = tail[-self._half :]
        self._save(data)
        return text

    @property
    def truncated(self) -> bool:
        return self._dropped > 0

    def text(self) -> str:
        if not self.truncated:
            return self._head + self._tail
        return f"{self._head}\n\n[{self._dropped} characters left out; {self._place()}]\n\n{self._tail}"

    def _place(self) -> str:
        if self.path is None:
            return "the whole could not be saved"
        if self._full:
            return f"the first {self._saved} bytes are in {self.path}, the rest was not saved"
        return f"the whole is in {self.path}"

    def _save(self, data: bytes) -> None:
        if not self.truncated:
            self._early += data
            return
        try:
            if self._file is None and not self._full:
                self._open()
            if self._file is not None:
                self._write(data)
        except OSError:
            self._full = True
            self.close()

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, self.path = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=self._folder)
        self._file = os.fdopen(handle, "wb", buffering=0)
        self._write(bytes(self._early))
        self._early.clear()

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        rest = memoryview(data)[: self._most_saved - self._saved]
        self._full = self._full or len(rest) < len(data)
        while rest:
            written = self._file.write(rest) or 0
            self._saved += written
            rest = rest[written:]
        if self._full:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
