"""Path, query and header parameters of requests."""

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
"""Max folders of a path: each of them is searched for config files."""
KEY = "idempotency-key"
DIRECTORY_HEADER = "x-opencode-directory"

DIRECTORY = Param("directory", "Directory of the project; default: the server's directory")
DIRECTED = Param("X-Opencode-Directory", "Percent-encoded directory, used if the query has none")
KEYED = Param("Idempotency-Key", "A repeated request with the same key takes effect only once", most=LONGEST)


def session_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "session"))


def message_id(request: Request) -> MessageId:
    return MessageId(path_id(request, "messageID", "message"))


def path_id(request: Request, name: str, kind: str) -> str:
    """Return an id from the path. Raises `NotFound` if it is too long to be one."""
    named = request.params[name]
    if len(named) > LONGEST:
        raise NotFound(kind, named[:LONGEST])
    return named


def key(request: Request) -> str | None:
    """Return the Idempotency-Key header: requests with the same key take effect once."""
    given = request.header(KEY)
    if not given:
        return None
    if len(given) > LONGEST or not given.isascii() or not given.isprintable():
        raise InvalidInput(f"{KEY} must be at most {LONGEST} printable ASCII characters")
    return given


def directory(site: Site, request: Request) -> str:
    return named_directory(request, beneath=site.directory) or site.directory


def named_directory(request: Request, *, beneath: str | None = None) -> str | None:
    """Return the directory of the query, or of the percent-encoded header of OpenCode's clients."""
    given = one(request, "directory") or unquote(request.header(DIRECTORY_HEADER))
    return a_directory(given, beneath=beneath) if given else None


def a_directory(text: str, *, beneath: str | None = None) -> str:
    """Resolve a directory to its real path, since clients write the same one in several ways."""
    text = text if beneath is None else join(beneath, text)
    if not text.startswith("/") or len(text) > LONGEST_PATH or not text.isprintable():
        raise InvalidInput("directory must be an absolute path, such as /home/me/project")
    if text.count("/") > DEEPEST:
        raise InvalidInput(f"directory is too deep: at most {DEEPEST} folders")
    try:
        return realpath(text)
    except OSError as error:  # e.g. an unreadable link in /proc
        raise InvalidInput(f"directory cannot be resolved: {error.strerror}") from error


def one(request: Request, name: str) -> str | None:
    """Return a query parameter. Unknown parameters are ignored: OpenCode's clients add some."""
    return Query(request.query).text(name)


def number(request: Request, name: str, *, default: int, most: int) -> int:
    text = one(request, name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= most:
        raise InvalidInput(f"{name} must be a number from 1 to {most}")
    return int(text)


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    said: dict[str | None, Literal[0, 1]] = {"true": 1, "1": 1, "false": 0, "0": 0}
    text = one(request, name)
    if text is None:
        return default
    if text not in said:
        raise InvalidInput(f"{name} must be true or false")
    return bool(said[text])
