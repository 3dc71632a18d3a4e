"""A request as raw bytes, its answer as JSON, and which status tells of which error."""

import logging
from collections.abc import Awaitable
from typing import Any

from msgspec import Struct

from asyncagents.domain.shape import encode
from asyncagents.errors import (
    AsyncAgentsError,
    Conflict,
    InvalidInput,
    NotFound,
    RequestError,
    ResultRefused,
    Unauthorized,
)

_log = logging.getLogger(__name__)

Pairs = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True, kw_only=True):
    """`path` and `query` are decoded, names and values as they came; `headers` in any case and order."""

    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """The first of that name; empty: there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class Answer(Struct, frozen=True):
    """`body` is JSON."""

    status: int
    body: bytes


_NAMES = {
    400: "BadRequest",
    401: "UnauthorizedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    409: "ConflictError",
    413: "PayloadTooLargeError",
    415: "UnsupportedMediaTypeError",
    422: "ResultRefusedError",
    503: "ServiceUnavailableError",
}
_STATUSES: tuple[tuple[type[RequestError], int], ...] = (
    (Unauthorized, 401),
    (NotFound, 404),
    (Conflict, 409),
    (ResultRefused, 422),
    (InvalidInput, 400),
)
_LATER = "this cannot be done now, and its log says why; send it again later, the same is done once"


def shown(value: Any) -> Answer:
    return Answer(200, encode(value))


def refused(status: int, message: str) -> Answer:
    return Answer(status, encode({"name": _NAMES[status], "data": {"message": message}}))


async def answered(work: Awaitable[Answer]) -> Answer:
    """What went wrong as an answer. What is not the caller's matter is logged and not told."""
    try:
        return await work
    except RequestError as error:
        return refused(_status(error), str(error))
    except AsyncAgentsError as error:
        _log.warning("a request could not be answered: %s", type(error).__name__, exc_info=error)
        return refused(503, _LATER)


def _status(error: RequestError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
