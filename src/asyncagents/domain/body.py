"""Encodes values for a row and refuses those that a database cannot store or a reader cannot decode."""

from typing import Any

from asyncagents.domain.shape import encode
from asyncagents.errors import InvalidInput

MAX_DEPTH = 100
"""Max nesting of JSON. Decoders recurse, and how far they can depends on the stack of their caller."""

MAX_NAME_CHARS = 600
"""Max characters of an id or a key: an index entry of PostgreSQL holds at most 2,700 bytes."""

_OPENING = b"[{"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def encode_body(value: Any) -> bytes:
    """Encode a value as the JSON that is stored. NaN and infinities become null. Raises `InvalidInput`."""
    try:
        raw = encode(value)
    except (ValueError, TypeError, RecursionError, NotImplementedError) as error:
        raise InvalidInput(f"this has no JSON form: {error}") from error
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise InvalidInput(f"this nests more than {MAX_DEPTH} levels deep; flatten it")
    return raw


def _depth(raw: bytes) -> int:
    outside_strings = b"".join(raw.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    depth = deepest = 0
    for bracket in outside_strings.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def check_names(*names: str | None) -> None:
    """Raise `InvalidInput` for ids and keys that some database cannot index: too long, or a zero byte."""
    for name in names:
        if name is not None and len(name) > MAX_NAME_CHARS:
            raise InvalidInput(
                f"{name[:80]!r}… is too long: an id or a key has {MAX_NAME_CHARS} characters at most"
            )
        if name is not None and "\0" in name:
            raise InvalidInput(f"{name[:80]!r} has a zero byte; an id or a key cannot")
