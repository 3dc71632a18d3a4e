"""Where a server listens, and how."""

import socket
from contextlib import closing

from asyncagents.server.address import resolve_address


def test_accepted_connections_have_tcp_nodelay_set() -> None:
    """Each event loop sets it for sockets that say they are TCP; those that connect inherit it, too."""
    with closing(resolve_address("127.0.0.1").bind(0)) as bound:
        with closing(socket.create_connection(bound.getsockname())), closing(bound.accept()[0]) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert bound.proto == socket.IPPROTO_TCP
