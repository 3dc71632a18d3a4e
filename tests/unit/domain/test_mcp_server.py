"""The MCP servers that a session can be given."""

from typing import Any

import pytest

from asyncagents.domain.conversation.mcp_server import (
    MOST_SERVER_BYTES,
    MOST_SERVERS,
    NewMcpServer,
    check_servers,
)
from asyncagents.errors import InvalidInput

SECRET = "a secret of mine"


def program(**more: Any) -> NewMcpServer:
    return NewMcpServer(**{"name": "kit", "command": ("kit",), **more})


def address(**more: Any) -> NewMcpServer:
    return NewMcpServer(**{"name": "kit", "type": "http", "url": "http://localhost/mcp", **more})


def test_programs_and_addresses_with_values_can_be_used() -> None:
    check_servers((program(environment={"KEY": SECRET}), address(name="far", headers={"X-Key": SECRET})))


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ((program(name=""),), "1 to 64 printable"),
        ((program(name="x" * 65),), "1 to 64 printable"),
        ((program(name="a\nb"),), "1 to 64 printable"),
        ((program(), address()), "two MCP servers are named 'kit'"),
        (tuple(program(name=f"kit{each}") for each in range(MOST_SERVERS + 1)), "give fewer"),
        ((program(command=()),), "needs a command"),
        ((program(command=("",)),), "needs a command"),
        ((program(command=("kit", "\0")),), "no null character"),
        ((program(command=("kit", "\ud800")),), "valid Unicode"),
        ((program(command=("kit",) * 257),), "at most 256 words"),
        ((program(url="http://localhost"),), "say http"),
        ((program(headers={"X-Key": SECRET}),), "say http"),
        ((program(environment={"A=B": SECRET}),), "names of environment variables"),
        ((program(environment={"": SECRET}),), "names of environment variables"),
        ((program(environment={"KEY": SECRET + "\0"}),), "no null character"),
        ((program(environment={"KEY": SECRET * MOST_SERVER_BYTES}),), "give fewer"),
        ((address(command=("kit",)),), "say stdio"),
        ((address(environment={"KEY": SECRET}),), "say stdio"),
        ((address(url=None),), "needs a url"),
        ((address(url="ftp://localhost"),), "needs a url"),
        ((address(headers={"X Key": SECRET}),), "names of headers"),
        ((address(headers={"X-Key": SECRET + "\r\nHost: other"}),), "one line each"),
        ((address(headers={f"X-{each}": "" for each in range(257)}),), "more than 256 headers"),
    ],
)
def test_servers_that_cannot_be_used_are_refused_without_their_values(
    servers: tuple[NewMcpServer, ...], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        check_servers(servers)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(servers)
