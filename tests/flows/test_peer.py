"""Whose program is at the other end: real sockets of several users, by the kernel and by /proc."""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest
from msgspec import Struct

from asyncagents.server.http import peer as peer_room
from asyncagents.server.http import socket_owner
from asyncagents.server.http.peer import Peer, UserLookup, UserMatch
from asyncagents.server.http.socket_owner import SocketEnds, SocketOwners, ask_kernel, read_tables
from tests.support.hostile.other_user import OTHER_UID, request_as, takes_root
from tests.support.http.raw import open_target
from tests.support.wait import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose socket it is")

NOBODY = 65534
HERE = "127.0.0.77"
"""Where no other program takes the port that was just given back."""
ADDRESSES = pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.5", "::1", "::ffff:127.0.0.1"])
WAYS = pytest.mark.parametrize(
    "find", [ask_kernel, read_tables, SocketOwners().find], ids=["kernel", "tables", "both"]
)
Find = Callable[[SocketEnds], int | None]


class Pair(Struct):
    """Both ends of a connection within this process."""

    client: socket.socket
    server: socket.socket
    ends: SocketEnds

    def reset(self) -> None:
        """Close the client's end without a word."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.close()


@contextmanager
def _pair(address: str = "127.0.0.1", *, uid: int | None = None) -> Iterator[Pair]:
    """The client's end is of another user, if one is given."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.socket(family)
        listener.bind((address, 0))
    except OSError:
        pytest.skip(f"there is no {address} here")
    with listener, socket.socket(family) as client:
        listener.listen()
        if uid is not None:
            os.fchown(client.fileno(), uid, uid)
        if family == socket.AF_INET:
            client.bind((HERE, 0))
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            yield Pair(client, server, SocketEnds(server.getpeername()[:2], server.getsockname()[:2]))


@WAYS
@ADDRESSES
@pytest.mark.spec("Z-07")
def test_the_user_of_a_connection_is_found(find: Find, address: str) -> None:
    with _pair(address) as pair:
        assert find(pair.ends) == os.geteuid()


@takes_root
@WAYS
@ADDRESSES
@pytest.mark.spec("Z-07")
def test_the_user_is_that_of_the_client_and_not_of_the_server(find: Find, address: str) -> None:
    with _pair(address, uid=OTHER_UID) as pair:
        assert find(pair.ends) == OTHER_UID
        assert find(pair.ends.reverse()) == os.geteuid()


@WAYS
@pytest.mark.spec("Z-07")
def test_a_connection_that_is_closed_has_no_user(find: Find) -> None:
    """The kernel keeps it for a while, as root's."""
    with _pair() as reset:
        reset.reset()
        assert find(reset.ends) is None
    with _pair() as closed:
        closed.client.close()
        assert find(closed.ends) is None
    with _pair() as half:
        half.client.shutdown(socket.SHUT_WR)
        assert find(half.ends) is None


@takes_root
@WAYS
@pytest.mark.spec("Z-07")
def test_a_reused_address_and_port_yield_the_user_of_the_new_connection(find: Find) -> None:
    with _pair(uid=OTHER_UID) as first:
        assert find(first.ends) == OTHER_UID
        first.reset()
        with socket.socket() as again:
            again.bind(first.ends.client)
            again.connect(first.ends.server)
            assert find(first.ends) == os.geteuid()


def test_a_listening_socket_is_not_taken_for_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = SocketEnds(listener.getsockname(), ("127.0.0.1", 1))
        assert ask_kernel(ends) is None
        assert read_tables(ends) is None


@ADDRESSES
def test_socket_tables_are_read_where_the_kernel_query_is_unsupported(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a service is allowed sockets of the internet alone."""
    monkeypatch.setattr(socket_owner, "_SOCK_DIAG", 31)
    with _pair(address) as pair:
        with pytest.raises(OSError, match="not supported"):
            ask_kernel(pair.ends)
        assert SocketOwners().find(pair.ends) == os.geteuid()


def test_a_lookup_without_socket_tables_finds_no_user(tmp_path: Path) -> None:
    with _pair() as pair:
        assert read_tables(pair.ends, tmp_path) is None


@pytest.mark.spec("Z-07")
@pytest.mark.parametrize(
    ("own", "uid", "owner"),
    [
        (1000, 1000, "same"),
        (1000, 0, "same"),
        (0, 0, "same"),
        (1000, 1001, "other"),
        (0, 1000, "other"),
        (1000, NOBODY, "unknown"),
        (NOBODY, NOBODY, "unknown"),
        (1000, None, "unknown"),
        (0, None, "unknown"),
    ],
)
async def test_root_is_the_same_user_and_an_unmapped_user_is_not_known(
    own: int, uid: int | None, owner: UserMatch
) -> None:
    with closing(UserLookup(own=own, find=lambda ends: uid)) as users:
        assert await users.match_user(SocketEnds(("127.0.0.1", 1), ("127.0.0.1", 2))) == owner


async def test_a_connection_is_looked_up_once_and_another_one_of_the_same_address_again() -> None:
    ends, told = SocketEnds(("127.0.0.1", 1), ("127.0.0.1", 2)), [1, 2, 3]
    with closing(UserLookup(own=1, find=lambda _: told.pop(0))) as users:
        peer, heir = Peer(users, ends), Peer(users, ends)
        found = [await each.match_user() for each in (peer, peer, heir, peer, heir)]

    assert found == ["same", "same", "other", "same", "other"]


async def test_a_look_up_that_takes_too_long_is_unknown_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_room, "SECONDS", 0.01)
    free = Event()

    def find(ends: SocketEnds) -> int:
        free.wait(PATIENCE)
        return 1

    with closing(UserLookup(own=1, find=find)) as users:
        peer = Peer(users, SocketEnds(("127.0.0.1", 1), ("127.0.0.1", 2)))
        late = await peer.match_user()
        free.set()
        monkeypatch.setattr(peer_room, "SECONDS", PATIENCE)
        found = await peer.match_user()

    assert late == "unknown"
    assert found == "same"


async def test_a_connection_that_was_lost_at_once_is_of_an_unknown_user() -> None:
    with closing(UserLookup()) as users:
        assert await Peer(users, None).match_user() == "unknown"


@takes_root
@pytest.mark.spec("Z-07")
async def test_a_program_of_an_unknown_user_reads_counts_and_no_conversations(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        paths = ("/v1/stats", "/v1/health", "/metrics", "/doc", "/v1/tasks", "/v1/events", "/v1/tasks/x/logs")
        requests = [at.build_request("GET", path) for path in paths]
        heard = await request_as(NOBODY, "127.0.0.1", at.port, requests)

    assert [each.status for each in heard] == [200, 200, 200, 200, 401, 401, 401]
    assert b"the user of the requesting program is unknown" in heard[-1].body
    assert b"Bearer" in heard[-1].body


@pytest.mark.spec("Z-07")
async def test_a_disconnect_during_the_user_lookup_leaves_nothing_running(tmp_path: Path) -> None:
    async with open_target(tmp_path) as at:
        before = len(asyncio.all_tasks())
        for _ in range(50):
            async with await at.connect() as wire:
                await wire.send(at.build_request("GET", "/v1/tasks"))
                wire.reset()
        await wait_until(lambda: len(asyncio.all_tasks()) <= before)  # they end by themselves
        answered = await at.request("GET", "/v1/tasks")

    assert answered.status == 200
