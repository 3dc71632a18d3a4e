"""A session that could not be exported or imported; the others are still processed."""

from msgspec import Struct


class Trouble(Struct, frozen=True):
    """`name`: a file, or the id of a session."""

    name: str
    why: str
