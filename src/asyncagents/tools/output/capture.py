"""Capture what a process prints: head and tail in memory, the whole in a file when it is long."""

import codecs
from pathlib import Path

from asyncagents.tools.output.spill_file import MOST_SAVED, SpillFile


class OutputCapture:
    """Head and tail of a text; the file is created when both are full."""

    def __init__(self, folder: Path, cap: int, *, most_saved: int = MOST_SAVED) -> None:
        self._half = max(1, cap // 2)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unwritten = bytearray()
        self._head = ""
        self._tail = ""
        self._dropped = 0
        self._spill_file = SpillFile(folder, most=most_saved)

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """Add bytes of the output; return their text."""
        text = self._decoder.decode(data, last).replace("\0", "�")
        room = self._half - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[room:] if room > 0 else self._tail + text
        self._dropped += max(0, len(tail) - self._half)
        self._tail = tail[-self._half :]
        self._save(data)
        return text

    @property
    def is_truncated(self) -> bool:
        return self._dropped > 0

    @property
    def path(self) -> str | None:
        return self._spill_file.path

    def text(self) -> str:
        if not self.is_truncated:
            return self._head + self._tail
        return omit_middle(self._head, self._tail, f"{self._dropped} characters", self._spill_file.describe())

    def close(self) -> None:
        self._spill_file.close()

    def _save(self, data: bytes) -> None:
        self._unwritten += data
        if self.is_truncated:
            self._spill_file.write(bytes(self._unwritten))
            self._unwritten.clear()


def omit_middle(head: str, tail: str, missing: str, place: str) -> str:
    """Join head and tail of a text with a note on what is missing and where the whole is."""
    return f"{head}\n\n[{missing} left out; {place}]\n\n{tail}"
