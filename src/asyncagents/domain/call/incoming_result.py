"""Reads results and errors of pending calls from request bodies."""

import msgspec
from msgspec import Struct

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.domain.id import CallId
from asyncagents.domain.strict_json import read_json
from asyncagents.errors import InvalidInput

MOST_BYTES = 10 * 1024 * 1024
MOST_BYTES_BESIDE_OUTPUT = 1024 * 1024
"""Max bytes beside the output or the error: JSON with very many values is slow to decode."""

_LONGEST_ID = 200
_LONGEST_RAW = 12 * _LONGEST_ID + 2
"""Each character as a surrogate pair, each half escaped as \\u and four digits."""
_RESULT = {"title", "output", "metadata"}


class IncomingResult(Struct, frozen=True):
    pending_id: CallId
    result: Result


class _OutputSize(Struct, frozen=True):
    output: msgspec.Raw = msgspec.Raw()


class _BodySize(Struct, frozen=True):
    """The parts of a body whose size is measured; a text of megabytes is skipped, not decoded."""

    result: _OutputSize | None = None
    error: msgspec.Raw = msgspec.Raw()


class _PendingIdOnly(Struct, frozen=True, rename={"pending_id": "pendingID"}):
    """The one field that is read before the sender is verified; the rest is not decoded."""

    pending_id: msgspec.Raw = msgspec.Raw()


_size_decoder = msgspec.json.Decoder(_BodySize)
_id_decoder = msgspec.json.Decoder(_PendingIdOnly)


def read_pending_id(raw: bytes) -> CallId:
    """Read the pending id of an unverified body; errors say nothing about the rest of the body."""
    try:
        named = _id_decoder.decode(raw).pending_id
        return _check_id(msgspec.json.decode(named) if 0 < memoryview(named).nbytes <= _LONGEST_RAW else None)
    except (ValueError, RecursionError):
        raise InvalidInput('the body is not a JSON object with a "pendingID"') from None


def read_incoming_result(raw: bytes) -> IncomingResult:
    """Read `{"pendingID", "result": {"title"?, "output", "metadata"?}}` or `{"pendingID", "error"}`."""
    _check_size(raw)
    value = read_json(raw)
    if not isinstance(value, dict):
        raise InvalidInput(f"the body is a JSON object, not {_json_kind(value)}")
    result, error = value.get("result"), value.get("error")
    if (result is None) == (error is None):
        raise InvalidInput('the body has either a "result" or an "error", and not both')
    return IncomingResult(
        _check_id(value.get("pendingID")), _read_failed(error) if result is None else _read_completed(result)
    )


def _check_size(raw: bytes) -> None:
    if len(raw) <= MOST_BYTES_BESIDE_OUTPUT:
        return
    try:
        glance = _size_decoder.decode(raw)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is not the JSON of a result or an error") from None
    texts = (bytes(glance.error), bytes(glance.result.output) if glance.result else b"")
    if len(raw) - sum(len(text) for text in texts if text.startswith(b'"')) > MOST_BYTES_BESIDE_OUTPUT:
        raise InvalidInput(
            "beside its output the body has more than 1 MiB; put what is large into the output"
        )


def _check_id(value: object) -> CallId:
    if not isinstance(value, str) or not value or len(value) > _LONGEST_ID or not value.isprintable():
        raise InvalidInput('the body names no call: "pendingID" is the id that the tool was given')
    return CallId(value)


def _read_completed(value: object) -> Completed:
    if not isinstance(value, dict):
        raise InvalidInput(f'"result" is an object with an "output", not {_json_kind(value)}')
    for unknown in sorted(value.keys() - _RESULT):
        raise InvalidInput(f'"result" has no field {unknown[:80]!r}: there are title, output and metadata')
    output, title, metadata = value.get("output"), value.get("title"), value.get("metadata")
    if not isinstance(output, str):
        raise InvalidInput(f'"result.output" is a text, not {_json_kind(output)}')
    if not isinstance(title, str | None):
        raise InvalidInput(f'"result.title" is a text, not {_json_kind(title)}')
    if not isinstance(metadata, dict | None):
        raise InvalidInput(f'"result.metadata" is an object, not {_json_kind(metadata)}')
    return Completed(output, title or "", metadata or {})


def _read_failed(value: object) -> Failed:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput('"error" is a text that says what went wrong')
    return Failed(value)


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null or left out"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
