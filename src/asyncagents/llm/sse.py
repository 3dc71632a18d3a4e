"""Server-sent events: bytes in any cut become the data of each event."""

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event, or of one line; a server that sends more is not speaking to us."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"one event of the stream is longer than {limit} bytes")


class SseDecoder:
    """Only data comes out: both wires say in it what kind of event it is."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that this chunk completes."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        if self._size + len(chunk) > self._limit:
            self._check(chunk)
        lines = chunk.split(b"\n")
        last = lines.pop()
        if not lines:
            self._size += len(last)
            self._line.append(last)
            return []
        if self._line:
            lines[0] = b"".join(self._line) + lines[0]
            self._line.clear()
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        if last:
            self._line.append(last)
        events = self._read(lines)
        self._size = len(last) + (sum(map(len, self._data)) + len(self._data) if self._data else 0)
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
            elif line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"data:"):
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
        return events

    def _check(self, chunk: bytes) -> None:
        """One chunk may hold many events; what counts is how much of it one event takes."""
        longest = max(map(len, chunk.split(b"\n")))
        if longest > self._limit or self._size - len(chunk) + len(chunk.partition(b"\n")[0]) > self._limit:
            raise EventTooLong(self._limit)

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        """CR, LF and CRLF all end a line, and a CRLF may be cut in two."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
