"""Decoding response bodies into domain types; fields of a newer server are kept."""

from typing import TypeVar

import msgspec

from asyncagents.domain.conversation.codec import BROKEN, Unreadable, decode_message, decode_part, decoder
from asyncagents.domain.conversation.entry import Entry
from asyncagents.errors import Unavailable

T = TypeVar("T")


class _RawEntry(msgspec.Struct):
    info: msgspec.Raw
    parts: tuple[msgspec.Raw, ...]


class _RawAnswer(msgspec.Struct):
    answer: _RawEntry | None = None


def read(body: bytes, kind: type[T]) -> T:
    """Decode a body as `kind`. Raises `Unavailable` if it does not match: no asyncagents server sent it."""
    try:
        return decoder(kind).decode(body)
    except BROKEN as error:
        raise Unavailable(f"the server's response does not match the schema: {error}") from error


def read_entry(body: bytes) -> Entry:
    return _entry(read(body, _RawEntry))


def read_entries(body: bytes) -> tuple[Entry, ...]:
    return tuple(_entry(raw) for raw in read(body, tuple[_RawEntry, ...]))


def read_answer(body: bytes) -> Entry | None:
    raw = read(body, _RawAnswer).answer
    return None if raw is None else _entry(raw)


def _entry(raw: _RawEntry) -> Entry:
    try:
        parts = tuple(decode_part(bytes(part)) for part in raw.parts)
        return Entry(info=decode_message(bytes(raw.info)), parts=parts)
    except Unreadable as error:
        raise Unavailable(f"the server's response does not match the schema: {error}") from error
