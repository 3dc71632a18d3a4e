"""Decodes and encodes stored objects, keeping fields and types that a newer version wrote."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from asyncagents.domain.conversation.failure import Failure, read_failure
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, PartSource, ToolState
from asyncagents.domain.conversation.part import UnknownPart as UnknownPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.shape import RawValue, Shape, encode

T = TypeVar("T")

DECODE_ERRORS = (ValueError, RecursionError)
"""What decoding can raise: invalid JSON or UTF-8, a wrong shape, too deep nesting."""

SHAPE_VERSION = 1
"""The version written beside each stored session, message and part."""


class Unreadable(ValueError):
    """Stored or received bytes cannot be decoded."""

    def __init__(self, kind: str, id: str | None, reason: str) -> None:
        super().__init__(f"unreadable {kind} {id or '(no id)'}: {reason}")
        self.kind = kind
        self.id = id


class _IdOnly(Shape, frozen=True, kw_only=True):
    id: Any = None


def unreadable_error(kind: str, raw: bytes, error: Exception) -> Unreadable:
    try:
        found = decoder(_IdOnly).decode(raw).id
    except DECODE_ERRORS:
        found = None
    return Unreadable(kind, found if isinstance(found, str) else None, str(error))


def upcast(version: int, raw: bytes) -> bytes:
    """Convert stored bytes to the current shape version; a newer version is read as far as it is known."""
    if version < 1:
        raise Unreadable("row", None, f"shape version {version}, expected 1 or more")
    return raw


def _decode_custom(type: Any, value: Any) -> Any:
    if type is Failure:
        return read_failure(value)
    raise NotImplementedError(f"no reader for {type}")


@cache
def _decoder(type: Any) -> Any:
    return msgspec.json.Decoder(type, dec_hook=_decode_custom)


def decoder(type: type[T]) -> msgspec.json.Decoder[T]:
    key: Any = type
    made: msgspec.json.Decoder[T] = _decoder(key)
    return made


_sessions = decoder(Session)
_messages: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message, dec_hook=_decode_custom)
_parts: msgspec.json.Decoder[Part] = msgspec.json.Decoder(Part)
_statuses: msgspec.json.Decoder[Status] = msgspec.json.Decoder(Status)


def decode_session(raw: bytes) -> Session:
    try:
        return _sessions.decode(raw)
    except DECODE_ERRORS as error:
        raise unreadable_error("session", raw, error) from error


def decode_message(raw: bytes) -> Message:
    """Decode a message; a failure with an unknown name is kept."""
    try:
        return _messages.decode(raw)
    except DECODE_ERRORS as error:
        raise unreadable_error("message", raw, error) from error


def decode_status(raw: bytes) -> Status:
    try:
        return _statuses.decode(raw)
    except DECODE_ERRORS as error:
        raise unreadable_error("status", raw, error) from error


def decode_part(raw: bytes) -> Part | UnknownPart:
    """Decode a part; one of an unknown type or in an unknown state is kept."""
    try:
        return _parts.decode(raw)
    except DECODE_ERRORS as error:
        if (unknown := _decode_unknown_part(raw)) is not None:
            return unknown
        raise unreadable_error("part", raw, error) from error


def _tags(union: Any) -> frozenset[object]:
    return frozenset(kind.__struct_config__.tag for kind in union.__args__)


_TYPES, _STATES, _SOURCES = _tags(Part), _tags(ToolState), _tags(PartSource)


def _decode_unknown_part(raw: bytes) -> UnknownPart | None:
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return None
    return _unknown_part(raw, value) if _has_unknown_tag(value) else None


def _has_unknown_tag(value: Any) -> bool:
    match value:
        case {"type": "tool", "state": {"status": str(tag)}}:
            return tag not in _STATES
        case {"type": "file", "source": {"type": str(tag)}}:
            return tag not in _SOURCES
        case {"type": str(tag)}:
            return tag not in _TYPES
        case _:
            return False


def _unknown_part(raw: bytes, value: dict[str, Any]) -> UnknownPart:
    ids = [value.get(name) for name in ("id", "sessionID", "messageID")]
    part, session, message = (one if isinstance(one, str) else None for one in ids)
    return UnknownPart(
        raw,
        type=value["type"],
        id=PartId(part) if part is not None else None,
        session_id=SessionId(session) if session is not None else None,
        message_id=MessageId(message) if message is not None else None,
    )


_object: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


def overlay(old: bytes, new: msgspec.Struct) -> bytes:
    """Encode `new` with every field of `old` that its type does not know, at any depth.

    Known fields come from `new` alone. Elements of an array are paired by id, else by equality.
    """
    try:
        merged = _merge_object(old, _decode_old(old, type(new)), new)
    except DECODE_ERRORS as error:
        raise unreadable_error(type(new).__name__, old, error) from error
    return encode(new if merged is None else merged)


def _decode_old(old: bytes, type: type[msgspec.Struct]) -> msgspec.Struct | None:
    """Decode `old`: its tagged types may know other fields than those of `new`."""
    try:
        return decoder(type).decode(old)
    except DECODE_ERRORS:
        return None


@cache
def _fields(type: type[msgspec.Struct]) -> dict[str, str]:
    """Map wire names to attributes; the tag counts as known."""
    config = type.__struct_config__
    names = dict(zip(type.__struct_encode_fields__, type.__struct_fields__, strict=True))
    return names if config.tag_field is None else {config.tag_field: config.tag_field} | names


def _merge_value(old: msgspec.Raw, was: Any, new: Any) -> Any:
    """Merge a value; None if `old` has nothing to add to `new`."""
    start = bytes(old)[:1]
    if isinstance(new, msgspec.Struct) and start == b"{" and not isinstance(was, RawValue):
        return _merge_object(old, was, new)
    if isinstance(new, tuple) and isinstance(was, tuple) and start == b"[":
        return _merge_array(_array.decode(old), was, new)
    return None


def _merge_object(old: bytes | msgspec.Raw, was: Any, new: msgspec.Struct) -> dict[str, Any] | None:
    fields = _fields(type(new))
    dropped = _fields(type(was)) if isinstance(was, msgspec.Struct) else {}
    added: dict[str, Any] = {}
    for name, raw in _object.decode(old).items():
        if name in fields:
            attribute = fields[name]
            deeper = _merge_value(raw, getattr(was, attribute, None), getattr(new, attribute, None))
            if deeper is not None:
                added[name] = deeper
        elif name not in dropped:
            added[name] = raw
    return {**_object.decode(encode(new)), **added} if added else None


def _merge_array(old: list[msgspec.Raw], was: tuple[Any, ...], new: tuple[Any, ...]) -> list[Any] | None:
    added = [_merge_item(old, was, item) for item in new]
    if all(item is None for item in added):
        return None
    return [plain if item is None else item for item, plain in zip(added, new, strict=True)]


def _merge_item(old: list[msgspec.Raw], was: tuple[Any, ...], new: Any) -> Any:
    found = next((at for at, item in enumerate(was) if item == new), None)
    if found is None:
        found = next((at for at, item in enumerate(was) if _same_id(item, new)), None)
    return None if found is None else _merge_value(old[found], was[found], new)


def _same_id(item: Any, new: Any) -> bool:
    wanted = getattr(new, "id", None)
    return wanted is not None and wanted == getattr(item, "id", None)
