"""Rows of /proc/net/tcp and answers of the kernel: whose socket they tell of, and which ones they do not."""

import errno
import struct
from typing import Literal

import pytest

from asyncagents.server.http.socket_owner import SocketEnds, find_row, read_answer

HEAD = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
FOUR = SocketEnds(("127.0.0.1", 40_000), ("127.0.0.1", 5165))
ALIAS = SocketEnds(("127.0.0.5", 40_000), ("127.0.0.1", 5165))
SIX = SocketEnds(("::1", 40_000), ("::1", 5165))
MAPPED = SocketEnds(("::ffff:127.0.0.1", 40_000), ("::ffff:127.0.0.1", 5165))

LITTLE = "0100007F:9C40 0100007F:142D"
BIG = "7F000001:9C40 7F000001:142D"
SIX_LITTLE = "00000000000000000000000001000000:9C40 00000000000000000000000001000000:142D"
SIX_BIG = "00000000000000000000000000000001:9C40 00000000000000000000000000000001:142D"
MAPPED_LITTLE = "0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:142D"
MAPPED_BIG = "00000000000000000000FFFF7F000001:9C40 00000000000000000000FFFF7F000001:142D"


def _row(ends: str, *, state: str = "01", uid: str = "1000", inode: str = "248009") -> bytes:
    queues = "00000000:00000000 00:00000000 00000000"
    return f"   7: {ends} {state} {queues} {uid:>5}        0 {inode} 1 000000005542547c 20 4 30\n".encode()


@pytest.mark.spec("Z-07")
@pytest.mark.parametrize(
    ("ends", "six", "order", "columns"),
    [
        (FOUR, False, "little", LITTLE),
        (FOUR, False, "big", BIG),
        (ALIAS, False, "little", "0500007F:9C40 0100007F:142D"),
        (ALIAS, False, "big", "7F000005:9C40 7F000001:142D"),
        (MAPPED, False, "little", LITTLE),
        (MAPPED, False, "big", BIG),
        (FOUR, True, "little", MAPPED_LITTLE),
        (FOUR, True, "big", MAPPED_BIG),
        (MAPPED, True, "little", MAPPED_LITTLE),
        (MAPPED, True, "big", MAPPED_BIG),
        (SIX, True, "little", SIX_LITTLE),
        (SIX, True, "big", SIX_BIG),
    ],
)
def test_the_row_of_the_client_names_its_user(
    ends: SocketEnds, six: bool, order: Literal["little", "big"], columns: str
) -> None:
    local, remote = columns.split()
    server = _row(f"{remote} {local}", uid="4000")
    other = _row(columns.replace(":9C40", ":9C41"), uid="4001")

    assert find_row([HEAD, server, other, _row(columns)], ends, six=six, order=order) == 1000
    assert find_row([HEAD, server, other], ends, six=six, order=order) is None


@pytest.mark.spec("Z-07")
@pytest.mark.parametrize(
    "row",
    [
        *(_row(LITTLE, state=f"{state:02X}") for state in range(2, 13)),
        _row(LITTLE, uid="0", inode="0"),
        _row("0100007F:9C40 0100007F:142E"),
        _row("0100007F:9C40 0200007F:142D"),
        _row("0200007F:9C40 0100007F:142D"),
        _row("0100007F:142D 0100007F:9C40"),
        _row("0100007F:9C40 00000000:0000"),
        _row(LITTLE, uid="-1"),
        _row(LITTLE, uid="x"),
        _row(LITTLE)[:60],
        b"",
        b"\n",
        b"\xff\xfe\x00",
    ],
)
def test_rows_of_other_ends_or_states_and_malformed_rows_name_no_user(row: bytes) -> None:
    """Of no other state, of neither end alone, of no socket that its program has closed, and nothing torn."""
    assert find_row([HEAD, row], FOUR, six=False, order="little") is None


def test_an_ipv6_address_is_not_found_in_the_ipv4_table() -> None:
    assert find_row([HEAD, _row(LITTLE)], SIX, six=False, order="little") is None


def _answer(
    *, state: int = 1, uid: int = 1000, inode: int = 9, ports: tuple[int, int] = (40_000, 5165)
) -> bytes:
    four = bytes([127, 0, 0, 1]).ljust(16, b"\0")
    found = struct.pack("!HH16s16s12s", *ports, four, four, b"")
    body = struct.pack("=BBBB48sIIIII", 2, state, 0, 0, found, 0, 0, 0, uid, inode)
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body


def _error(number: int) -> bytes:
    return struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -number) + bytes(16)


@pytest.mark.spec("Z-07")
def test_the_kernel_names_the_user_of_an_open_connection_alone() -> None:
    assert read_answer(_answer(), FOUR) == 1000
    assert read_answer(_answer(), MAPPED) == 1000
    assert read_answer(_answer(uid=0), FOUR) == 0
    for state in range(2, 13):
        assert read_answer(_answer(state=state), FOUR) is None
    assert read_answer(_answer(uid=0, inode=0), FOUR) is None
    assert read_answer(_answer(ports=(5165, 40_000)), FOUR) is None
    assert read_answer(_answer(), ALIAS) is None
    assert read_answer(_answer(), SIX) is None
    assert read_answer(_error(errno.ENOENT), FOUR) is None


def test_a_refusal_of_the_kernel_is_an_error() -> None:
    with pytest.raises(PermissionError):
        read_answer(_error(errno.EACCES), FOUR)
