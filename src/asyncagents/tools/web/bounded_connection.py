"""HTTP connections with a limit on received bytes and heads, also where the parser would read without end."""

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
"""Heads of one response, with the interim ones (100, 103)."""


class BoundedHandler(ResponseHandler):
    """Counts received bytes and heads: heads, chunk extensions and trailers are not limited with the body."""

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
        """Count a parsed head and pass it on."""
        self._heads_left -= 1
        if self._heads_left >= 0:
            super().feed_data(data, size)
        else:
            self._cut_off()

    def _cut_off(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class BoundedConnector(aiohttp.TCPConnector):
    """Opens connections that receive `most` bytes at most, with sockets from `open_socket`."""

    def __init__(
        self, resolver: AbstractResolver, open_socket: Callable[[AddrInfoType], socket.socket], *, most: int
    ) -> None:
        super().__init__(resolver=resolver, use_dns_cache=False, force_close=True, socket_factory=open_socket)
        self._factory = cast("partial[ResponseHandler]", partial(BoundedHandler, loop=self._loop, most=most))
