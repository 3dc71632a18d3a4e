"""A call that waits for a person, and on whose behalf."""

from msgspec import Struct

from asyncagents.domain.call import Call
from asyncagents.domain.session import Session


class Waiting(Struct, frozen=True):
    call: Call
    lineage: tuple[Session, ...]
    """From the root of the tree down to the session that asks."""

    @property
    def who(self) -> str:
        """Whom it asks, in words; nothing: whoever reads it."""
        return self.call.open.who if self.call.open else ""

    @property
    def until(self) -> int | None:
        """When it asks no more, in ms since the epoch; None: it waits for ever."""
        return self.call.open.due if self.call.open else None
