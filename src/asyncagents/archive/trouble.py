"""What could not be exported or imported: the others go on."""

from msgspec import Struct


class Trouble(Struct, frozen=True):
    """`name`: of a file, or the id of a session."""

    name: str
    why: str
