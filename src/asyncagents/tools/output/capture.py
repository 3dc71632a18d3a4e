"""Capture what a process prints: head and tail in memory, the whole in a file when it is long."""

import codecs
from pathlib import Path

from asyncagents.tools.output.spill_file import MOST_SAVED, Saved


class Output:
    """Head and tail of a text; the file is created when both are full."""

    def __init__(self, folder: Path, cap: int, *, most_saved: int = MOST_SAVED) -> None:
        self._half = max(1, cap // 2)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._early = bytearray()
        self._head = ""
        self._tail = ""
        self._dropped = 0
        self._saved = Saved(folder, most=most_saved)

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
    def truncated(self) -> bool:
        return self._dropped > 0

    @property
    def path(self) -> str | None:
        return self._saved.path

    def text(self) -> str:
        if not self.truncated:
            return self._head + self._tail
        return left_out(self._head, self._tail, f"{self._dropped} characters", self._saved.place())

    def close(self) -> None:
        self._saved.close()

    def _save(self, data: bytes) -> None:
        self._early += data
        if self.truncated:
            self._saved.write(bytes(self._early))
            self._early.clear()


def left_out(head: str, tail: str, missing: str, place: str) -> str:
    """Join head and tail of a text with a note on what is missing and where the whole is."""
    return f"{head}\n\n[{missing} left out; {place}]\n\n{tail}"
