"""Decoding response bodies into domain types; fields of a newer server are kept."""

from typing import TypeVar

import msgspec

from asyncagents.domain.conversation.codec import (
    DECODE_ERRORS,
    Unreadable,
    decode_message,
    decode_part,
    decoder,
)
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.errors import Unavailable

T = TypeVar("T")


class _RawEntry(msgspec.Struct):
    info: msgspec.Raw
    parts: tuple[msgspec.Raw, ...]


class _RawAnswer(msgspec.Struct):
    answer: _RawEntry | None = None


def decode_body(body: bytes, kind: type[T]) -> T:
    """Decode a body as `kind`. Raises `Unavailable` if it does not match: no asyncagents server sent it."""
    try:
        return decoder(kind).decode(body)
    except DECODE_ERRORS as error:
        raise Unavailable(f"the server's response does not match the schema: {error}") from error


def read_entry(body: bytes) -> MessageWithParts:
    return _entry(decode_body(body, _RawEntry))


def read_entries(body: bytes) -> tuple[MessageWithParts, ...]:
    return tuple(_entry(raw) for raw in decode_body(body, tuple[_RawEntry, ...]))


def read_answer(body: bytes) -> MessageWithParts | None:
    raw = decode_body(body, _RawAnswer).answer
    return None if raw is None else _entry(raw)


def _entry(raw: _RawEntry) -> MessageWithParts:
    try:
        parts = tuple(decode_part(bytes(part)) for part in raw.parts)
        return MessageWithParts(info=decode_message(bytes(raw.info)), parts=parts)
    except Unreadable as error:
        raise Unavailable(f"the server's response does not match the schema: {error}") from error
