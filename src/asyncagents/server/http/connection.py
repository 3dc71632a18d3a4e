"""One HTTP connection: uvicorn's protocol with timeouts, size limits and no pipelining."""

import asyncio
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from asyncagents.server.http.messages import PEER, Pairs, Response, error_response
from asyncagents.server.http.peer import Peer, UserLookup
from asyncagents.server.http.socket_owner import SocketEnds
from asyncagents.server.http.timeouts import Timeouts

HEADER_BYTES = 64 * 1024
MOST_HEADERS = 128
MOST_PIPELINED_BYTES = 1024 * 1024
PROGRESS_BYTES = 16 * 1024
"""A client that reads this much of a stalled response within the timeout is not stalled."""

_BAD_REQUEST = "this is not a valid HTTP/1.1 request"
_BAD_TARGET = "the request target must be a path, such as /v1/health"
_TOO_LONG = f"the request head is too large: at most {MOST_HEADERS} headers and {HEADER_BYTES // 1024} KiB"
_TOO_SLOW = "the request head arrived too slowly; send the request again"
_TOO_MANY = "too many connections; try again later"
_LATER: Pairs = (("retry-after", "1"),)


class HttpConnection(HttpToolsProtocol):
    """A connection of this server. Pipelined requests are dropped; the client sends them again."""

    timeouts = Timeouts()
    users: UserLookup | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_since: float | None = None
        self._stalled_since: float | None = None
        self._stalled_bytes = 0
        """Unsent bytes of the response when it stalled."""
        self._closing_since: float | None = None
        self._idle_since: float | None = None
        self._is_busy = False
        """Whether a request is in progress: its response is not complete."""
        self._in_body = False
        self._unparsed_bytes = 0
        """Bytes received since the parser's last event; the parser buffers all of them."""
        self._ignores_input = False
        self._is_lost = False
        self._pipelined_bytes = 0
        self._started_at = 0.0
        """Loop time when the connection, or the request in progress, began."""
        self._peer = Peer()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if len(self.connections) >= self.timeouts.connections and not self._evict_connection():
            self._refuse(503, _TOO_MANY, _LATER)
            return
        super().connection_made(transport)
        self._peer = Peer(self.users, _socket_ends(transport))
        self._head_since = self._started_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self._ignores_input or (self._is_busy and not self._in_body):
            self._drop_pipelined(len(data))
            return
        self._unset_keepalive_if_required()
        self._idle_since = None
        if not self._in_body and self._head_since is None:
            self._head_since = self.loop.time()
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._drop_pipelined(0)  # no upgrade is supported: it gets a plain HTTP response
        except httptools.HttpParserError:
            self._refuse(400, _BAD_REQUEST)
        if self._unparsed_bytes > HEADER_BYTES:
            self._refuse(431, _TOO_LONG)

    def _drop_pipelined(self, size: int) -> None:
        """Drop pipelined bytes and close after the current response."""
        self._ignores_input = True
        self._pipelined_bytes += size
        if self._is_busy:
            self.cycle.keep_alive = False
        if self._pipelined_bytes > MOST_PIPELINED_BYTES:
            self.reset_connection()

    def _refuse(self, status: int, message: str, headers: Pairs = ()) -> None:
        """Send an error and close; in the middle of another response, only abort the connection."""
        if self._ignores_input or self.transport.is_closing():
            return
        self._ignores_input, self._head_since = True, None
        if self._is_busy:
            self.transport.abort()
            return
        self.transport.write(_encode_response(error_response(status, message, headers)))
        self.transport.close()

    def _evict_connection(self) -> bool:
        """Abort the connection of lowest rank. Returns False if all serve requests that have the token."""
        known = [each for each in self.connections if isinstance(each, HttpConnection)]
        placed = [(place, id(each), each) for each in known if (place := each._eviction_rank()) is not None]
        if not placed:
            return False
        *_, first = min(placed)
        self.connections.discard(first)
        first.transport.abort()
        return True

    def _eviction_rank(self) -> tuple[int, float] | None:
        """Rank for eviction, lowest first: idle, silent, streams without the token, the oldest without it.

        A flood thus evicts its own connections, and a new one has time to send its request. None: never.
        """
        if self._idle_since is not None:
            return 0, self._idle_since
        if self._is_busy and self._peer.has_token:
            return None
        is_silent = not self._is_busy and self.loop.time() - self._started_at > self.timeouts.silent_seconds
        if is_silent:
            return 1, self._started_at
        return (2 if self._peer.is_streaming else 3), self._started_at

    # Parser callbacks

    def on_message_begin(self) -> None:
        if self._is_busy:
            self._drop_pipelined(0)
        if not self._ignores_input:
            super().on_message_begin()
            self._peer.has_token = False
            self.scope["state"][PEER] = self._peer

    def on_url(self, url: bytes) -> None:
        if not self._ignores_input:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._ignores_input and not self._in_body:  # ignore trailers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._ignores_input:
            return
        self._head_since, self._unparsed_bytes = None, 0
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEADER_BYTES or len(self.headers) > MOST_HEADERS:
            self._refuse(431, _TOO_LONG)
        elif not self._has_plain_framing():
            self._refuse(400, _BAD_REQUEST)
        elif not self.url.startswith(b"/"):
            self._refuse(400, _BAD_TARGET)
        else:
            super().on_headers_complete()
            self._is_busy = self._in_body = True
            self._started_at = self.loop.time()

    def _has_plain_framing(self) -> bool:
        """Check that the end of the body is unambiguous (request smuggling); the parser checks too late."""
        encodings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        return self.parser.get_http_version() in {"1.0", "1.1"} and encodings in ([], [b"chunked"])

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if not self._ignores_input:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._unparsed_bytes = False, 0
        if not self._ignores_input:
            super().on_message_complete()

    # Timeouts

    def on_response_complete(self) -> None:
        self._is_busy = False
        super().on_response_complete()
        self._idle_since = None if self.transport.is_closing() else self.loop.time()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since, self._stalled_bytes = self.loop.time(), self._unsent_bytes()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = None

    def check_timeouts(self, now: float) -> None:
        """Enforce the timeouts, periodically. Resets stuck connections: closing waits for the client."""
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        if self._stalled_since is not None and self._stalled_bytes - self._unsent_bytes() >= PROGRESS_BYTES:
            self._stalled_since, self._stalled_bytes = now, self._unsent_bytes()
        if self._exceeds(self._closing_since, now, self.timeouts.linger_seconds) or self._exceeds(
            self._stalled_since, now, self.timeouts.stall_seconds
        ):
            self.reset_connection()
        elif self._exceeds(self._head_since, now, self.timeouts.header_seconds):
            if self._unparsed_bytes:
                self._refuse(408, _TOO_SLOW)
            else:
                self.transport.close()

    def _unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def _exceeds(self, since: float | None, now: float, seconds: float) -> bool:
        return since is not None and now - since > seconds

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(self.timeouts.stop_seconds / 2, self._reset_if_stuck)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(exc)

    def _reset_if_stuck(self) -> None:
        if self.transport.is_closing() or self.flow.write_paused:
            self.reset_connection()

    def reset_connection(self) -> None:
        """Close the connection with a TCP reset, dropping all buffered output."""
        if self._is_lost:
            return
        with suppress(OSError, ValueError):  # the socket may be closed already
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def connection_class(timeouts: Timeouts, users: UserLookup) -> type[HttpConnection]:
    """Make the connection class of one server, with its timeouts and user lookup."""
    return type("ConfiguredConnection", (HttpConnection,), {"timeouts": timeouts, "users": users})


def _socket_ends(transport: asyncio.Transport) -> SocketEnds | None:
    """Return the addresses of both ends; None if the connection is already lost."""
    client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return SocketEnds(client[:2], server[:2]) if client and server else None


def _encode_response(answer: Response) -> bytes:
    status = HTTPStatus(answer.status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"content-type: {answer.content_type}",
        f"content-length: {len(answer.body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    )
    return "".join(f"{line}\r\n" for line in (*head, "")).encode() + answer.body
