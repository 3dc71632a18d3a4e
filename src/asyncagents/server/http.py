"""A request as raw bytes, its answer as JSON, and which status tells of which error."""

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
from asyncagents.server.peer import Peer

_log = logging.getLogger(__name__)

Pairs = tuple[tuple[str, str], ...]


async def _never() -> None:
    await asyncio.Event().wait()


class Request(Struct, frozen=True, kw_only=True):
    """`path` and `query` are decoded, names and values as they came; `headers` in any case and order."""

    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""
    params: dict[str, str] = {}
    """What stands in the path where its template has names, decoded."""
    client: str = ""
    """The address it came from."""
    peer: Peer = field(default_factory=Peer)
    gone: Callable[[], Coroutine[Any, Any, None]] = _never
    """Returns when whoever asked has hung up. There is one who waits for it, at most."""

    def __repr__(self) -> str:
        """Without headers: they have the token."""
        return f"Request({self.method} {self.path[:200]!r})"

    def header(self, name: str) -> str:
        """The first of that name; empty: there is none."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return ""


JSON = "application/json"
STREAM = "text/event-stream"


class Answer(Struct, frozen=True):
    """`body` is JSON, unless `kind` says otherwise."""

    status: int
    body: bytes = b""
    headers: Pairs = ()
    kind: str = JSON


class Stream(Struct, frozen=True):
    """Server-sent events, each framed as bytes; whoever does not read them is cut off."""

    frames: AsyncGenerator[bytes, None]
    beat: Callable[[], bytes] | None = None
    """The frame that is sent after so many seconds without one."""
    silence: float = 30.0
    steady: bool = False
    """The frame is sent every so many seconds, whatever else is."""


Reply: TypeAlias = Answer | Stream


NAMES = {
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
_UNEXPECTED = "this is a mistake of the server, and its log says more"
_LATER = "this cannot be done now, and its log says why; send it again later, the same is done once"


def shown(value: Any) -> Answer:
    return Answer(200, encode(value))


def refused(status: int, message: str, headers: Pairs = ()) -> Answer:
    return Answer(status, encode({"name": NAMES[status], "data": {"message": message}}), headers)


def damaged(error: Damaged) -> Answer:
    """No later try does better, so that nobody should wait for one; `damaged` tells it from a bug."""
    said = (
        f"a row of this session cannot be read, and the session cannot go on ({str(error)[:LONGEST_REASON]})"
    )
    message = f"{said}; all others can. Look for the row in a backup, or delete the session"
    return Answer(500, encode({"name": NAMES[500], "data": {"message": message, "damaged": True}}))


R = TypeVar("R", Answer, Reply)


def plainly(error: RequestError) -> Answer:
    return refused(status_of(error), str(error))


async def answered(work: Awaitable[R], tell: Callable[[RequestError], Answer] = plainly) -> R | Answer:
    """What went wrong as an answer. What is not the caller's matter is logged and not told."""
    try:
        return await work
    except RequestError as error:
        return tell(error)
    except Damaged as error:
        _log.warning("a request could not be answered", exc_info=error)
        return damaged(error)
    except AsyncAgentsError as error:
        _log.warning("a request could not be answered", exc_info=error)
        return refused(503, _LATER)
    except Exception:  # noqa: BLE001  the edge of a request: the next one is none the worse
        _log.exception("a request failed")
        return refused(500, _UNEXPECTED)


def status_of(error: RequestError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
