"""Decode server-sent events from chunks of any size."""

MAX_EVENT = 16 * 1024 * 1024
"""The most bytes of one event or line."""
LINE_COST = 64
"""Memory overhead of one data line in bytes, so that many empty lines count too."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"one event of the stream is longer than {limit} bytes")


class SseDecoder:
    """Returns only the data of events; both wires have the event type in the data."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line = bytearray()
        """The current incomplete line."""
        self._data: list[bytes] = []
        self._size = 0
        """The memory that the current incomplete event takes."""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes; raises `EventTooLong`."""
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

    def end(self) -> list[bytes]:
        """Return the last event if only its empty line is missing; an incomplete line is dropped."""
        return self._read([b""])

    def _read(self, lines: list[bytes]) -> list[bytes]:
        data = self._data
        events: list[bytes] = []
        for line in lines:
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._size = 0
                continue
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"data:"):
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
            else:
                continue
            self._size += len(line)
            if len(data) > 1:
                self._size += LINE_COST
                self._check()
        return events

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
