"""What a request says beside its body: ids, a directory, numbers, and the key that makes it count once."""

from os.path import join, realpath
from typing import Literal
from urllib.parse import unquote

from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.http import Request
from asyncagents.server.query import Query
from asyncagents.server.route import Param, Site

LONGEST = 200
LONGEST_PATH = 4096
DEEPEST = 256
"""Folders of a path: each is looked at, and so are the files that it may have for us."""
KEY = "idempotency-key"
DIRECTORY_HEADER = "x-opencode-directory"

DIRECTORY = Param("directory", "The project's directory; else the one that the server works in")
DIRECTED = Param("X-Opencode-Directory", "The same, percent-encoded, where the query has none")
KEYED = Param("Idempotency-Key", "The same one again is the same request again", most=LONGEST)


def session_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "session"))


def message_id(request: Request) -> MessageId:
    return MessageId(path_id(request, "messageID", "message"))


def path_id(request: Request, name: str, kind: str) -> str:
    """What cannot be the id of anything is not looked for."""
    named = request.params[name]
    if len(named) > LONGEST:
        raise NotFound(kind, named[:LONGEST])
    return named


def key(request: Request) -> str | None:
    """The same one again is the same request again."""
    given = request.header(KEY)
    if not given:
        return None
    if len(given) > LONGEST or not given.isascii() or not given.isprintable():
        raise InvalidInput(f"{KEY} has at most {LONGEST} printable characters of ASCII")
    return given


def directory(site: Site, request: Request) -> str:
    return named_directory(request, beneath=site.directory) or site.directory


def named_directory(request: Request, *, beneath: str | None = None) -> str | None:
    """As the query says, or the header of OpenCode's clients, in which it is encoded."""
    given = one(request, "directory") or unquote(request.header(DIRECTORY_HEADER))
    return a_directory(given, beneath=beneath) if given else None


def a_directory(text: str, *, beneath: str | None = None) -> str:
    """As a program that is there would name it: clients write the same one in several ways."""
    text = text if beneath is None else join(beneath, text)
    if not text.startswith("/") or len(text) > LONGEST_PATH or not text.isprintable():
        raise InvalidInput("a directory is an absolute path, such as /home/me/project")
    if text.count("/") > DEEPEST:
        raise InvalidInput(f"a directory lies at most {DEEPEST} folders deep")
    try:
        return realpath(text)
    except OSError as error:  # a link, of /proc say, that may not be read
        raise InvalidInput(f"that directory cannot be looked at: {error.strerror}") from error


def one(request: Request, name: str) -> str | None:
    """Unknown names are ignored: clients of others add theirs."""
    return Query(request.query).text(name)


def number(request: Request, name: str, *, default: int, most: int) -> int:
    text = one(request, name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
        raise InvalidInput(f"{name} is a number from 1 to {most}")
    return int(text)


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    said: dict[str | None, Literal[0, 1]] = {"true": 1, "1": 1, "false": 0, "0": 0}
    text = one(request, name)
    if text is None:
        return default
    if text not in said:
        raise InvalidInput(f"{name} is true or false")
    return bool(said[text])
