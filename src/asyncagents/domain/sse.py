"""Decode server-sent events from chunks of any size."""

from typing import NamedTuple

from asyncagents.errors import AsyncAgentsError

LINE_COST = 64
"""Memory overhead of one data line in bytes, so that many empty lines count too."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(AsyncAgentsError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"one event of the stream is longer than {limit} bytes")


class SseEvent(NamedTuple):
    data: bytes
    type: str = "message"
    id: str | None = None


class SseDecoder:
    """Decodes one stream. `limit`: the most bytes of one event or line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        """The current incomplete line."""
        self._data: list[bytes] = []
        self._type = self._id = ""
        self._size = 0
        """The memory that the current incomplete event takes."""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that this chunk completes; raises `EventTooLong`."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._normalize_newlines(chunk)
        lines = chunk.split(b"\n")
        last = lines.pop()
        if not lines:
            self._line += last
            self._check()
            return []
        large = len(self._line) + len(chunk) > self._limit
        if self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        if large and max(map(len, lines)) > self._limit:
            raise EventTooLong(self._limit)
        events = self._read(lines)
        self._line += last
        self._check()
        return events

    def end(self) -> list[SseEvent]:
        """Return the last event if only its empty line is missing; an incomplete line is dropped."""
        return self._read([b""])

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        data, events = self._data, []
        for line in lines:
            if not line:
                if data:
                    events.append(SseEvent(b"\n".join(data), self._type or "message", self._id or None))
                    data.clear()
                self._type = self._id = ""
                self._size = 0
                continue
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif not self._read_field(line):
                continue
            self._size += len(line)
            if len(data) > 1:
                self._size += LINE_COST
                self._check()
        return events

    def _read_field(self, line: bytes) -> bool:
        """Store a field of the current event; return False if it is a comment or an unknown field."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._type = value.decode(errors="replace")
            case b"id":
                self._id = value.decode(errors="replace")
            case _:
                return False
        return True

    def _check(self) -> None:
        if self._size + len(self._line) > self._limit:
            raise EventTooLong(self._limit)

    def _normalize_newlines(self, chunk: bytes) -> bytes:
        """Convert CR and CRLF to LF; a CRLF may be split between chunks."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
