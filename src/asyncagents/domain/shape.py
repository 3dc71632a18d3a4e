"""The base of JSON objects on the wire: snake_case fields in code, the wire's names in JSON."""

import re
from typing import Any

import msgspec


def wire_name(name: str) -> str:
    """Convert a field name: `session_id` becomes `sessionID`, `status_code` `statusCode`, `id` stays."""
    camel = re.sub(r"_([a-z0-9])", lambda hit: hit[1].upper(), name)
    return camel[:-2] + "ID" if name.endswith("_id") else camel


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=wire_name):
    """A JSON object that clients see. An optional field is left out, never null."""


class RawValue:
    """A value of an unknown type, kept as the received bytes and encoded as them."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


def _encode_raw_value(value: Any) -> msgspec.Raw:
    if isinstance(value, RawValue):
        return msgspec.Raw(value.raw)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_encode_raw_value)


def encode(value: Any) -> bytes:
    return _encoder.encode(value)
