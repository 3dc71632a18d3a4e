"""MCP servers that a session was given: as they are given, with their secrets, and as they are stored."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import field

from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput

MOST_SERVERS = 32
LONGEST_SERVER_NAME = 64
MOST_WORDS = 256
"""Words of a command, and names of variables or headers."""
MOST_SERVER_BYTES = 64 * 1024
"""Size of all servers of a session, with their values."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LINE_ENDS = frozenset("\0\r\n")

ServerType: TypeAlias = Literal["stdio", "http"]
HiddenField: TypeAlias = Literal["command", "url"]


class SessionMcpServer(Shape, frozen=True, kw_only=True, cache_hash=True):
    """An MCP server of a session as it is stored: with the names of its variables and headers, no values.

    `hidden`: the fields in which "…" stands for something that looks like a secret.
    """

    name: str
    type: ServerType
    command: tuple[str, ...] = ()
    url: str | None = None
    environment: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    hidden: tuple[HiddenField, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """Return names for what the server needs and is not stored."""
        parts = tuple(f"the secret in its {field}" for field in self.hidden)
        return (*self.environment, *self.headers, *parts)

    @property
    def where(self) -> str:
        """Return the command or the URL, as people read it."""
        return self.url or " ".join(self.command)


class NewMcpServer(Shape, frozen=True, kw_only=True):
    """An MCP server for a session: a program that is started (`stdio`) or a URL (`http`)."""

    name: str
    type: ServerType = "stdio"
    command: tuple[str, ...] = ()
    url: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Show the name alone: the other fields may hold secrets."""
        return f"NewMcpServer({self.name!r})"


def check_servers(servers: Sequence[NewMcpServer]) -> None:
    """Raise `InvalidInput` for servers that cannot be used; the text names no value."""
    if len(servers) > MOST_SERVERS:
        raise InvalidInput(f"a session can have {MOST_SERVERS} MCP servers, not {len(servers)}: give fewer")
    seen: set[str] = set()
    for server in servers:
        _check_name(server.name)
        if server.name in seen:
            raise InvalidInput(f"two MCP servers are named {server.name!r}: give each a name of its own")
        seen.add(server.name)
        for problem in _problems(server):
            raise InvalidInput(f"MCP server {server.name!r}: {problem}")
    size = sum(len(text.encode("utf-8", "replace")) for server in servers for text in _texts(server))
    if size > MOST_SERVER_BYTES:
        raise InvalidInput(
            f"the MCP servers of a session have {size} bytes: {MOST_SERVER_BYTES} are possible, give fewer"
        )


def _check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST_SERVER_NAME or not name.isprintable() or not name.strip():
        raise InvalidInput(
            f"the name of an MCP server must have 1 to {LONGEST_SERVER_NAME} printable characters"
        )


def _problems(server: NewMcpServer) -> Iterator[str]:
    if server.type == "stdio":
        yield from _program_problems(server)
    else:
        yield from _address_problems(server)
    if any(_is_unsafe(text) for text in _texts(server)):
        yield "its texts must hold no null character and be valid Unicode"


def _program_problems(server: NewMcpServer) -> Iterator[str]:
    if server.url is not None or server.headers:
        yield "a server of type stdio has a command and no url or headers: leave them out, or say http"
    if not (server.command and server.command[0].strip()):
        yield "it needs a command: the program and its arguments, each a text"
    if max(len(server.command), len(server.environment)) > MOST_WORDS:
        yield f"a command has at most {MOST_WORDS} words, and as many variables: give a script"
    if not all(name and "=" not in name and name.isprintable() for name in server.environment):
        yield 'names of environment variables must be printable texts without "="'


def _address_problems(server: NewMcpServer) -> Iterator[str]:
    if server.command or server.environment:
        yield "a server of type http has a url and no command or environment: leave them out, or say stdio"
    if not (server.url or "").startswith(("http://", "https://")) or not (server.url or "").isprintable():
        yield "it needs a url that begins with https:// or http://"
    if len(server.headers) > MOST_WORDS:
        yield f"it has more than {MOST_WORDS} headers: give fewer"
    if not all(_HEADER_NAME.fullmatch(name) for name in server.headers):
        yield "names of headers must be those of HTTP, such as Authorization"
    if any(not _LINE_ENDS.isdisjoint(value) for value in server.headers.values()):
        yield "values of headers must be one line each"


def _is_unsafe(text: str) -> bool:
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _texts(server: NewMcpServer) -> Iterator[str]:
    yield from (server.name, *server.command, server.url or "")
    yield from _pair_texts(server.environment)
    yield from _pair_texts(server.headers)


def _pair_texts(pairs: Mapping[str, str]) -> Iterator[str]:
    for name, value in pairs.items():
        yield from (name, value)
