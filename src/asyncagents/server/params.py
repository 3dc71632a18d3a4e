"""Path, query and header parameters of requests."""

from collections.abc import Sequence
from os.path import join, realpath
from typing import TypeVar
from urllib.parse import unquote

from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.http.messages import Request
from asyncagents.server.route import LONGEST_ID, Param, ServerContext

HIGHEST_NUMBER = 2**53 - 1
"""JavaScript's largest safe integer."""

T = TypeVar("T", bound=str)

LONGEST_PATH = 4096
DEEPEST_PATH = 256
"""Max folders of a path: each of them is searched for config files."""
KEY_HEADER = "idempotency-key"
DIRECTORY_HEADER = "x-opencode-directory"

MOST_SESSIONS = 10_000
LIMIT_PARAM = Param("limit", "Max sessions", "integer", least=1)


def session_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "session"))


def message_id(request: Request) -> MessageId:
    return MessageId(path_id(request, "messageID", "message"))


def path_id(request: Request, name: str, kind: str) -> str:
    """Return an id from the path. Raises `NotFound` if it is too long to be one."""
    named = request.params[name]
    if len(named) > LONGEST_ID:
        raise NotFound(kind, named[:LONGEST_ID])
    return named


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key header: requests with the same key take effect once."""
    given = request.header(KEY_HEADER)
    if not given:
        return None
    if len(given) > LONGEST_ID or not given.isascii() or not given.isprintable():
        raise InvalidInput(f"{KEY_HEADER} must be at most {LONGEST_ID} printable ASCII characters")
    return given


def directory(server: ServerContext, request: Request) -> str:
    return named_directory(request, beneath=server.directory) or server.directory


def named_directory(request: Request, *, beneath: str | None = None) -> str | None:
    """Return the directory of the query, or of the percent-encoded header of OpenCode's clients."""
    given = query_text(request, "directory") or unquote(request.header(DIRECTORY_HEADER))
    return parse_directory(given, beneath=beneath) if given else None


def parse_directory(text: str, *, beneath: str | None = None) -> str:
    """Resolve a directory to its real path, since clients write the same one in several ways."""
    text = text if beneath is None else join(beneath, text)
    if not text.startswith("/") or len(text) > LONGEST_PATH or not text.isprintable():
        raise InvalidInput("directory must be an absolute path, such as /home/me/project")
    if text.count("/") > DEEPEST_PATH:
        raise InvalidInput(f"directory is too deep: at most {DEEPEST_PATH} folders")
    try:
        return realpath(text)
    except OSError as error:  # e.g. an unreadable link in /proc
        raise InvalidInput(f"directory cannot be resolved: {error.strerror}") from error


def query_text(request: Request, name: str) -> str | None:
    """Return a query parameter. Unknown parameters are ignored: OpenCode's clients add some."""
    found = [value for key, value in request.query if key == name]
    if len(found) > 1:
        raise InvalidInput(f"{name} occurs {len(found)} times: give it once")
    return found[0] if found else None


def query_nonempty_text(request: Request, name: str) -> str | None:
    value = query_text(request, name)
    if value == "":
        raise InvalidInput(f"{name} is empty: omit it or give a value")
    return value


def query_choice(request: Request, name: str, choices: Sequence[T]) -> T | None:
    value = query_text(request, name)
    for choice in choices:
        if value == choice:
            return choice
    if value is None:
        return None
    raise InvalidInput(f"{name} is {value[:40]!r}: expected one of {', '.join(choices)}")


def query_number(
    request: Request, name: str, *, default: int, least: int = 1, most: int = HIGHEST_NUMBER
) -> int:
    value = query_text(request, name)
    if value is None:
        return default
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(HIGHEST_NUMBER))
    if not is_number or not least <= int(value) <= most:
        raise InvalidInput(f"{name} is {value[:40]!r}: expected a number from {least} to {most}")
    return int(value)


def query_flag(request: Request, name: str, *, default: bool = False) -> bool:
    value = query_text(request, name)
    if value is None:
        return default
    if value not in {"true", "1", "false", "0"}:
        raise InvalidInput(f"{name} must be true or false")
    return value in {"true", "1"}
