"""JSON-RPC 2.0 with one JSON object per line, for both sides of a connection."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from asyncagents.errors import AsyncAgentsError, InvalidInput

MAX_FRAME_BYTES = 32 * 1024 * 1024
"""A longer line is skipped and answered with an error."""
MAX_OPEN_REQUESTS = 256
"""Requests of the other side that may be open at once; more are refused."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
CANCEL_METHOD = "$/cancel_request"

RequestId: TypeAlias = int | str

_NULL = Raw(b"null")
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")
"""Backslashes, pairs of surrogates, and as a group the surrogates that belong to no pair."""
_log = logging.getLogger(__name__)


class RpcError(AsyncAgentsError):
    """The error of a request: sent to the other side, or received from it."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class ConnectionLoss(AsyncAgentsError):
    """The other side closed the connection before it answered."""


class _Error(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _Incoming(Struct, frozen=True):
    """A request, notification or response. Only the id is typed: a frame with an id gets its answer."""

    id: RequestId | UnsetType | None = UNSET
    method: Any = None
    params: Raw = _NULL
    result: Raw | UnsetType = UNSET
    error: Raw = _NULL


class _Request(Struct, frozen=True):
    method: str
    params: Any
    jsonrpc: str = "2.0"
    id: Any = UNSET


class _Response(Struct, frozen=True):
    id: RequestId | None
    result: Any = UNSET
    error: _Error | UnsetType = UNSET
    jsonrpc: str = "2.0"


class _CancelParams(Struct, frozen=True, rename="camel"):
    request_id: RequestId | None = None


class Handler(Protocol):
    """What a side does with the requests and notifications of the other side. `params` is raw JSON."""

    async def handle_request(self, method: str, params: Raw) -> Any:
        """Return the result of a request. Raises `RpcError`; other errors become internal errors."""
        ...

    async def handle_notification(self, method: str, params: Raw) -> None:
        """Handle a notification before the next line is read; what takes long must be queued."""
        ...


ReadLine: TypeAlias = Callable[[], Awaitable[bytes | None]]
"""Returns the next line without its end, None at the end of the stream. Raises `LineTooLong`."""
WriteBytes: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Writes bytes in the order of the calls; waits while the other side reads too slowly."""


class LineTooLong(AsyncAgentsError):
    """A line that exceeded the limit was skipped."""


_decode_frame = msgspec.json.Decoder(_Incoming).decode
_encode = msgspec.json.Encoder().encode


class JsonRpcConnection:
    """One side of a connection.

    Requests of the other side start in the order in which they arrive, each in a task of its own.
    Notifications are handled one after another, and before any response that arrives after them.
    """

    def __init__(
        self, read_line: ReadLine, write: WriteBytes, handler: Handler, *, group: asyncio.TaskGroup
    ) -> None:
        self._read_line = read_line
        self._write = write
        self._handler = handler
        self._group = group
        self._last_id = 0
        self._waiting: dict[RequestId, asyncio.Future[Raw]] = {}
        self._handling: dict[RequestId, asyncio.Task[None]] = {}
        self._cancelled: set[RequestId] = set()
        self._answered: set[RequestId] = set()
        self._closed = False
        self.answers_noise = True

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended; a handler cancelled before was cancelled by its caller."""
        return self._closed

    async def run(self) -> None:
        """Read lines until the other side closes the stream; then end the requests of both sides."""
        try:
            while not self._closed and (line := await self._next_line()) is not None:
                if line.strip():
                    await self._receive(line)
        finally:
            self._close()

    async def _next_line(self) -> bytes | None:
        while True:
            try:
                return await self._read_line()
            except LineTooLong as error:
                await self._respond_error(None, RpcError(INVALID_REQUEST, str(error)))

    def _close(self) -> None:
        self._closed = True
        for task in self._handling.values():
            task.cancel()
        for waiting in self._waiting.values():
            _fail(waiting, ConnectionLoss("the other side closed the connection"))
        self._waiting.clear()

    async def request(self, method: str, params: Any) -> Raw:
        """Send a request and return its raw result. Raises `RpcError` and `ConnectionLoss`.

        A cancelled caller cancels the request at the other side.
        """
        if self._closed:
            raise ConnectionLoss("the other side closed the connection")
        self._last_id += 1
        request_id = self._last_id
        waiting: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiting
        try:
            await self._send(_Request(method, params, id=request_id))
            return await waiting
        except asyncio.CancelledError:
            if request_id in self._waiting:
                self._start_cancel(request_id)
            raise
        finally:
            self._waiting.pop(request_id, None)

    def _start_cancel(self, request_id: RequestId) -> None:
        notification = self.notify(CANCEL_METHOD, {"requestId": request_id})
        try:
            self._group.create_task(notification)
        except RuntimeError:  # the group is ending, and the connection with it
            notification.close()

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; after the end of the connection, do nothing."""
        await self._send(_Request(method, params))

    async def _send(self, frame: _Request | _Response) -> None:
        if self._closed:
            return
        try:
            await self._write(_encode(frame) + b"\n")
        except OSError as error:
            _log.info("action=write failed error=%s", type(error).__name__)
            self._close()

    async def _receive(self, line: bytes) -> None:
        try:
            frame = _read_frame(line)
        except (ValueError, RecursionError) as error:
            await self._respond_error(None, _frame_error(line, error))
            return
        request_id = None if frame.id is UNSET else frame.id
        if frame.method is None:
            await self._receive_response(request_id, frame)
        elif not isinstance(frame.method, str):
            await self._respond_error(request_id, RpcError(INVALID_REQUEST, "the method must be a text"))
        elif frame.id is UNSET:
            await self._receive_notification(frame.method, frame.params)
        elif problem := self._request_problem(request_id):
            await self._respond_error(request_id, RpcError(INVALID_REQUEST, problem))
        elif request_id is not None:
            await self._start_request(request_id, frame.method, frame.params)

    async def _receive_response(self, request_id: RequestId | None, frame: _Incoming) -> None:
        waiting = None if request_id is None else self._waiting.pop(request_id, None)
        is_error = bytes(frame.error) != b"null"
        if waiting is not None and is_error:
            _fail(waiting, _read_error(frame.error))
        elif waiting is not None and not waiting.done():
            waiting.set_result(_NULL if frame.result is UNSET else frame.result)
        elif waiting is None and frame.result is UNSET and not is_error:
            problem = RpcError(INVALID_REQUEST, "a frame needs a method, a result or an error")
            await self._respond_error(None, problem)
        elif waiting is None and is_error:
            _log.warning("id=%.80r action=receive error=%.400r", request_id, bytes(frame.error))

    async def _receive_notification(self, method: str, params: Raw) -> None:
        if method == CANCEL_METHOD:
            self._cancel_request(params)
            return
        try:
            await self._handler.handle_notification(method, params)
        except Exception as error:  # noqa: BLE001  a notification has no answer
            if not isinstance(error, AsyncAgentsError):
                _log.error("method=%.80r action=notify failed", method, exc_info=error)

    def _cancel_request(self, params: Raw) -> None:
        try:
            request_id = msgspec.json.decode(params, type=_CancelParams).request_id
        except (msgspec.DecodeError, RecursionError):
            return
        if request_id in self._handling and request_id not in self._cancelled | self._answered:
            self._cancelled.add(request_id)
            self._handling[request_id].cancel()

    def _request_problem(self, request_id: RequestId | None) -> str | None:
        if request_id is None:
            return "the id of a request must be a whole number or a text"
        if request_id in self._handling:
            return f"the request {request_id!r:.80} is still open: give each request an id of its own"
        if len(self._handling) >= MAX_OPEN_REQUESTS:
            return f"more than {MAX_OPEN_REQUESTS} requests are open: wait for answers first"
        return None

    async def _start_request(self, request_id: RequestId, method: str, params: Raw) -> None:
        """Start a request and let its handler begin before the next line, which may cancel it."""
        started = asyncio.Event()
        task = self._group.create_task(self._answer(started, request_id, method, params))
        self._handling[request_id] = task
        task.add_done_callback(lambda _: started.set())
        await started.wait()

    async def _answer(self, started: asyncio.Event, request_id: RequestId, method: str, params: Raw) -> None:
        started.set()
        try:
            response = await self._handle(request_id, method, params)
            self._answered.add(request_id)
            await self._send(response)
        finally:
            self._handling.pop(request_id, None)
            self._cancelled.discard(request_id)
            self._answered.discard(request_id)

    async def _handle(self, request_id: RequestId, method: str, params: Raw) -> _Response:
        try:
            result = await self._handler.handle_request(method, params)
            return _Response(request_id, result=Raw(_encode(result)))
        except asyncio.CancelledError:
            if self._closed or self._is_ending(request_id):
                raise
            return _error_response(request_id, RpcError(REQUEST_CANCELLED, "the request was cancelled"))
        except Exception as error:  # noqa: BLE001  the edge of a request: its failure is an answer
            return _error_response(request_id, _as_rpc_error(error, method))

    def _is_ending(self, request_id: RequestId) -> bool:
        """Return whether the task of a request was cancelled by more than the other side's request."""
        task = self._handling[request_id]
        if request_id in self._cancelled:
            task.uncancel()
        return task.cancelling() > 0

    async def _respond_error(self, request_id: RequestId | None, error: RpcError) -> None:
        if request_id is not None or self.answers_noise:
            await self._send(_error_response(request_id, error))


def decode_params(params: Raw, type: type[Any]) -> Any:
    """Decode the parameters of a request into a type. Raises `RpcError` that names the wrong field."""
    try:
        return msgspec.json.decode(params, type=type)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"the parameters are wrong: {error}") from error


def no_such_method(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")


def _read_frame(line: bytes) -> _Incoming:
    """Decode a line. A surrogate without its pair, as JavaScript writes half an emoji, becomes U+FFFD."""
    if not line.isascii():
        line.decode()  # raw fields are not checked otherwise
    try:
        return _decode_frame(line)
    except msgspec.DecodeError:
        mended = _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
        if mended == line:
            raise
        return _decode_frame(mended)


def _read_error(error: Raw) -> RpcError:
    try:
        body = msgspec.json.decode(error, type=_Error)
    except (msgspec.DecodeError, RecursionError):
        return RpcError(INTERNAL_ERROR, f"the answer is a malformed error: {bytes(error)[:400]!r}")
    return RpcError(body.code, body.message, body.data)


def _fail(waiting: asyncio.Future[Raw], error: AsyncAgentsError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # marks it as seen: the caller may have been cancelled meanwhile


def _error_response(request_id: RequestId | None, error: RpcError) -> _Response:
    """Build the response of an error. Texts that JSON cannot carry, such as names of files, are mended."""
    message = str(error).encode(errors="replace").decode()
    try:
        data = None if error.data is None else Raw(_encode(error.data))
    except (TypeError, ValueError, RecursionError):
        data = None
    return _Response(request_id, error=_Error(error.code, message, data))


def _frame_error(line: bytes, error: Exception) -> RpcError:
    if isinstance(error, msgspec.ValidationError):
        what = "batches are not supported: send one request per line" if line.lstrip()[:1] == b"[" else error
        return RpcError(INVALID_REQUEST, f"the frame is not a JSON-RPC object: {what}")
    return RpcError(PARSE_ERROR, f"the line is not JSON: {error}")


def _as_rpc_error(error: Exception, method: str) -> RpcError:
    match error:
        case RpcError():
            return error
        case InvalidInput():
            return RpcError(INVALID_PARAMS, str(error))
        case AsyncAgentsError():
            return RpcError(INTERNAL_ERROR, str(error))
        case _:
            _log.error("method=%.80r action=handle failed", method, exc_info=error)
            return RpcError(INTERNAL_ERROR, f"{method:.80} failed: {type(error).__name__}; the log says more")


class LineReader:
    """Reads lines from a stream of bytes, each up to a limit; a longer line is skipped to its end."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], max_bytes: int = MAX_FRAME_BYTES) -> None:
        """`read` returns the next bytes, empty at the end."""
        self._read = read
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._skipping = False

    async def __call__(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                if self._skipping or len(line) > self._max_bytes:
                    self._skipping = False
                    raise LineTooLong(f"a line of more than {self._max_bytes} bytes was skipped")
                return line
            self._searched = len(self._buffer)
            if self._searched > self._max_bytes:
                self._skipping = True
                self._buffer.clear()
                self._searched = 0
            piece = await self._read()
            if not piece:
                return None
            self._buffer += piece
