"""A bug put into a copy of the source on purpose."""

from msgspec import Struct


class Mutant(Struct, frozen=True):
    name: str
    file: str
    old: str
    new: str
    first: int = 0
    """The seed to begin with: where it is known to die late, most of what it survives is not played."""
