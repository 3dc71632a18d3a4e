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
    told = _error_data(body)
    said = told.message or f"the server responded with status {status}"
    if status == 404:
        return _not_found(said)
    if told.damaged:
        return Damaged(said)
    if status >= 500:
        return Unavailable(said)
    return _ERRORS.get(status, InvalidInput)(said)


def _not_found(said: str) -> NotFound:
    if there := _NOT_FOUND_OPENCODE.fullmatch(said):
        return NotFound(there["kind"].lower(), there["id"])
    named = _NOT_FOUND.fullmatch(said)
    error = NotFound(named["kind"], named["id"]) if named else NotFound("", "")
    error.args = (said,)
    return error


def _error_data(body: bytes) -> _Data:
    """Decode the error body; empty if it is not ours: a proxy may respond with its own page."""
    try:
        return msgspec.json.decode(body, type=_Body).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Data()
