"""Maps error responses to the exceptions that the runtime raises, with the server's message."""

import re

import msgspec
from msgspec import Struct

from asyncagents.errors import (
    AsyncAgentsError,
    Conflict,
    Damaged,
    InvalidInput,
    NotFound,
    ResultRefused,
    Unauthorized,
    Unavailable,
)

_NOT_FOUND = re.compile(r"no (?P<kind>.+?) with id '(?P<id>.*)'", re.DOTALL)
_NOT_FOUND_OPENCODE = re.compile(r"(?P<kind>[A-Z]\w+)(?: request)? not found: (?P<id>.*)", re.DOTALL)
"""The form of OpenCode's routes."""
_ERRORS: dict[int, type[AsyncAgentsError]] = {
    401: Unauthorized,
    403: Unauthorized,
    408: Unavailable,
    409: Conflict,
    422: ResultRefused,
    429: Unavailable,
}


class _Data(Struct, frozen=True):
    message: str = ""
    damaged: bool = False


class _Body(Struct, frozen=True):
    data: _Data = _Data()


def error_from_response(status: int, body: bytes) -> AsyncAgentsError:
    data = _error_data(body)
    message = data.message or f"the server responded with status {status}"
    if status == 404:
        return _not_found(message)
    if data.damaged:
        return Damaged(message)
    if status >= 500:
        return Unavailable(message)
    return _ERRORS.get(status, InvalidInput)(message)


def _not_found(message: str) -> NotFound:
    if there := _NOT_FOUND_OPENCODE.fullmatch(message):
        return NotFound(there["kind"].lower(), there["id"])
    named = _NOT_FOUND.fullmatch(message)
    error = NotFound(named["kind"], named["id"]) if named else NotFound("", "")
    error.args = (message,)
    return error


def _error_data(body: bytes) -> _Data:
    """Decode the error body; empty if it is not ours: a proxy may respond with its own page."""
    try:
        return msgspec.json.decode(body, type=_Body).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Data()
