"""HTTP requests and responses as values, and the mapping from errors to statuses."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from asyncagents.domain.shape import encode
from asyncagents.errors import (
    AsyncAgentsError,
    Conflict,
    Damaged,
    InvalidInput,
    NotFound,
    RequestError,
    ResultRefused,
    Unauthorized,
)
from asyncagents.server.http.peer import Peer

_log = logging.getLogger(__name__)

Pairs = tuple[tuple[str, str], ...]

PEER = "asyncagents.peer"
"""Key in the ASGI scope's `state` under which the connection passes its `Peer`."""


async def _never() -> None:
    await asyncio.Event().wait()


class Request(Struct, frozen=True, kw_only=True):
    """`query` is decoded, `path` is not; `headers` are in their original case and order."""

    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""
    params: dict[str, str] = {}
    """Values of the path template's parameters, decoded."""
    client: str = ""
    """IP address of the client."""
    peer: Peer = field(default_factory=Peer)
    wait_for_disconnect: Callable[[], Coroutine[Any, Any, None]] = _never
    """Returns when the client disconnects; at most one task may wait for it."""

    def __repr__(self) -> str:
        """Omit the headers: they contain the token."""
        return f"Request({self.method} {self.path[:200]!r})"

    def header(self, name: str) -> str:
        """Return the first header of that (lower-case) name, or an empty string."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return ""


JSON = "application/json"
STREAM = "text/event-stream"


class Response(Struct, frozen=True):
    """A complete response; `body` is JSON unless `content_type` says otherwise."""

    status: int
    body: bytes = b""
    headers: Pairs = ()
    content_type: str = JSON


class StreamingResponse(Struct, frozen=True):
    """A stream of server-sent event frames; a client that stops reading is disconnected."""

    frames: AsyncGenerator[bytes, None]
    heartbeat: Callable[[], bytes] | None = None
    """Makes the heartbeat frame; None: no heartbeats."""
    heartbeat_seconds: float = 30.0
    is_fixed_rate: bool = False
    """Send a heartbeat at every interval; else only after that long without a frame."""


AnyResponse: TypeAlias = Response | StreamingResponse


ERROR_NAMES = {
    400: "BadRequest",
    401: "UnauthorizedError",
    403: "ForbiddenError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    409: "ConflictError",
    413: "PayloadTooLargeError",
    415: "UnsupportedMediaTypeError",
    422: "ResultRefusedError",
    429: "TooManyRequestsError",
    431: "HeaderFieldsTooLargeError",
    500: "UnknownError",
    503: "ServiceUnavailableError",
}
_STATUSES: tuple[tuple[type[RequestError], int], ...] = (
    (Unauthorized, 401),
    (NotFound, 404),
    (Conflict, 409),
    (ResultRefused, 422),
    (InvalidInput, 400),
)
LONGEST_REASON = 300
_FAILED = "action=handle_request method=%s path=%s status=%d"
_UNEXPECTED = "internal error of the server; its log has the details"
_LATER = "the server cannot do this now (its log says why); send it again later: it takes effect only once"


def json_response(value: Any) -> Response:
    return Response(200, encode(value))


def error_response(status: int, message: str, headers: Pairs = ()) -> Response:
    return Response(status, encode({"name": ERROR_NAMES[status], "data": {"message": message}}), headers)


def damaged_response(error: Damaged) -> Response:
    """Build the 500 for an unreadable row. A retry does not help; `damaged` distinguishes it from a bug."""
    problem = (
        f"a row of this session is unreadable, so the session cannot continue ({str(error)[:LONGEST_REASON]})"
    )
    message = (
        f"{problem}; other sessions are not affected. Restore the row from a backup, or delete the session"
    )
    return Response(500, encode({"name": ERROR_NAMES[500], "data": {"message": message, "damaged": True}}))


R = TypeVar("R", Response, AnyResponse)


def plain_error(error: RequestError) -> Response:
    return error_response(status_of(error), str(error))


async def handle_errors(
    work: Awaitable[R], request: Request, tell: Callable[[RequestError], Response] = plain_error
) -> R | Response:
    """Await a handler and turn its errors into responses; internal errors are logged, not sent."""
    try:
        return await work
    except RequestError as error:
        return tell(error)
    except Damaged as error:
        _log.warning(_FAILED, request.method, request.path[:200], 500, exc_info=error)
        return damaged_response(error)
    except AsyncAgentsError as error:
        _log.warning(_FAILED, request.method, request.path[:200], 503, exc_info=error)
        return error_response(503, _LATER)
    except Exception:  # noqa: BLE001  the edge of a request: later requests must not suffer
        _log.exception(_FAILED, request.method, request.path[:200], 500)
        return error_response(500, _UNEXPECTED)


def status_of(error: RequestError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
