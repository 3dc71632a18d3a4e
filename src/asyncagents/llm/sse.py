"""Server-sent events: bytes in any cut become the data of each event."""

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event, or of one line; a server that sends more is not speaking to us."""
LINE_COST = 64
"""Bytes of memory that one line of data takes beside its text, so that many empty ones count too."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"one event of the stream is longer than {limit} bytes")


class SseDecoder:
    """Only data comes out: both wires say in it what kind of event it is."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line = bytearray()
        """Of a line that has not ended."""
        self._data: list[bytes] = []
        self._size = 0
        """What the data of an event that has not ended take."""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that this chunk completes."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
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
        """The stream is over: an event that lacks only its empty line counts, a line cut short does not."""
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

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """CR, LF and CRLF all end a line, and a CRLF may be cut in two."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
