"""The user who owns the other end of a connection within this machine, on Linux.

A `sock_diag` request asks the kernel about one socket in constant time; where that fails, all rows of
`/proc/net/tcp` and `/proc/net/tcp6` are read. Neither needs privileges.
"""

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

OVERFLOW_UID = 65534
"""The kernel's uid for users that are not mapped in the user namespace of this process."""
TABLES = Path("/proc/self/net")

_ESTABLISHED = 1
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ERROR = 2
_KERNEL = (0, 0)
"""Netlink address of the kernel."""
_TIMEOUT_SECONDS = 1.0
_ANSWER_BYTES = 8192
_HEAD = struct.Struct("=IHHII")
"""Length, type, flags, sequence number and port of a netlink message."""
_QUERY = struct.Struct("=BBBBI")
"""Family, protocol, extensions, padding and states."""
_SOCKET = struct.Struct("!HH16s16s12s")
"""Ports and addresses of both ends, then interface and cookie (any)."""
_DIAG_MESSAGE = struct.Struct("=BBBB48sIIIII")
"""Family, state, timer, retransmissions, the socket, three more, the user and the inode."""
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)

_Address: TypeAlias = IPv4Address | IPv6Address
Endpoint: TypeAlias = tuple[str, int]


class SocketEnds(Struct, frozen=True):
    """Address and port of both ends of a connection, as the server's socket names them."""

    client: Endpoint
    server: Endpoint

    def reverse(self) -> "SocketEnds":
        return SocketEnds(self.server, self.client)


class SocketOwners:
    """Finds the user of a connection, in one thread. Not for an event loop: the tables may be long, and the
    kernel busy."""

    def __init__(self) -> None:
        self._kernel_answers = False

    def find(self, ends: SocketEnds) -> int | None:
        """Return the uid that owns the client's end; None if no open connection of this machine has these
        ends, or the system does not tell."""
        if sys.platform != "linux":
            return None
        try:
            uid = ask_kernel(ends)
            # A kernel without the module finds no socket at all, not even the server's own end.
            self._kernel_answers |= uid is not None or ask_kernel(ends.reverse()) is not None
        except OSError:
            return read_tables(ends)
        return uid if self._kernel_answers else read_tables(ends)


def read_tables(ends: SocketEnds, tables: Path = TABLES) -> int | None:
    """Search the tables of `/proc` row by row. None: no such row, or no such file."""
    for name in ("tcp", "tcp6"):
        try:
            with (tables / name).open("rb") as rows:
                uid = find_row(rows, ends, six=name == "tcp6")
        except OSError:
            continue
        if uid is not None:
            return uid
    return None


def find_row(
    rows: Iterable[bytes], ends: SocketEnds, *, six: bool, order: Literal["little", "big"] = sys.byteorder
) -> int | None:
    """Return the uid of the client's row: established, with both ends and an inode. An orphaned socket has no
    inode, and its owner reads as root."""
    wanted = [_column(address, port, six=six, order=order) for address, port in (ends.client, ends.server)]
    if None in wanted:
        return None
    for row in rows:
        match row.split(maxsplit=10):
            case [_, local, remote, b"01", _, _, _, uid, _, inode, *_] if [local, remote] == wanted:
                return int(uid) if uid.isdigit() and inode not in {b"0", b""} else None
    return None


def _column(address: str, port: int, *, six: bool, order: Literal["little", "big"]) -> bytes | None:
    """Format an end as the table does: 32-bit words in host byte order. None: IPv6, for the IPv4 table."""
    packed = _pack_address(address)
    if not six and not packed.startswith(_MAPPED):
        return None
    packed = packed if six else packed[len(_MAPPED) :]
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    text = "".join((word[::-1] if order == "little" else word).hex() for word in words)
    return f"{text}:{port:04x}".upper().encode()


_MAPPED = bytes(10) + b"\xff\xff"


def _pack_address(address: str) -> bytes:
    """Pack an address as IPv6, IPv4 ones mapped, so that sockets of both families compare equal."""
    found: _Address = ip_address(address.partition("%")[0])
    return _MAPPED + found.packed if isinstance(found, IPv4Address) else found.packed


def ask_kernel(ends: SocketEnds) -> int | None:
    """Query the owner of the client's end by `sock_diag`. Raises `OSError` if the kernel does not answer."""
    (sport, dport), (source, target) = (ends.client[1], ends.server[1]), _addresses(ends)
    is_four = source.startswith(_MAPPED) and target.startswith(_MAPPED)
    family, cut = (socket.AF_INET, len(_MAPPED)) if is_four else (socket.AF_INET6, 0)
    wanted = _SOCKET.pack(sport, dport, source[cut:], target[cut:], _ANY)
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_SECONDS)
        kernel.sendto(_HEAD.pack(_HEAD.size + len(query), _BY_FAMILY, _REQUEST, 1, 0) + query, _KERNEL)
        answer, sender = kernel.recvfrom(_ANSWER_BYTES)
    if sender != _KERNEL:
        raise OSError(errno.EPERM, "another program answered for the kernel")
    return read_answer(answer, ends)


def read_answer(answer: bytes, ends: SocketEnds) -> int | None:
    """Parse the owner of the client's end; the kernel may report the listening socket instead."""
    kind, body = _HEAD.unpack_from(answer)[1], answer[_HEAD.size :]
    if kind == _ERROR:
        number = -int(struct.unpack_from("=i", body)[0])
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    family, state, _, _, found, _, _, _, uid, inode = _DIAG_MESSAGE.unpack_from(body)
    sport, dport, *addresses, _ = _SOCKET.unpack(found)
    if family == socket.AF_INET:
        addresses = [_MAPPED + each[:4] for each in addresses]
    matches = (sport, dport) == (ends.client[1], ends.server[1]) and (*addresses,) == _addresses(ends)
    return int(uid) if matches and inode and state == _ESTABLISHED else None


def _addresses(ends: SocketEnds) -> tuple[bytes, bytes]:
    return _pack_address(ends.client[0]), _pack_address(ends.server[0])
