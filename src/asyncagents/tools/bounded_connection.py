"""Connections that are cut off once too much has come, also where a parser of HTTP would read for ever."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

import aiohttp
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

MOST_HEADS = 32
"""Of one answer, with those that only announce it (100, 103)."""


class BoundedHandler(ResponseHandler):
    """Counts what comes: heads, extensions of chunks and trailers are no part of a body, and have no end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        super().__init__(loop=loop)
        self._bytes_left = most
        self._heads_left = MOST_HEADS

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left >= 0:
            super().data_received(data)
        else:
            self._cut_off()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head that was parsed."""
        self._heads_left -= 1
        if self._heads_left >= 0:
            super().feed_data(data, size)
        else:
            self._cut_off()

    def _cut_off(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class BoundedConnector(aiohttp.TCPConnector):
    """Opens connections that bring `most` bytes at most, with sockets that `open_socket` makes."""

    def __init__(
        self, resolver: AbstractResolver, open_socket: Callable[[AddrInfoType], socket.socket], *, most: int
    ) -> None:
        super().__init__(resolver=resolver, use_dns_cache=False, force_close=True, socket_factory=open_socket)
        self._factory = cast("partial[ResponseHandler]", partial(BoundedHandler, loop=self._loop, most=most))
