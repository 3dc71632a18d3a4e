"""A call that waits for a person, and on whose behalf."""

from msgspec import Struct

from asyncagents.domain.call import Call
from asyncagents.domain.session import Session


class Waiting(Struct, frozen=True):
    call: Call
    lineage: tuple[Session, ...]
    """From the root of the tree down to the session that asks."""
