"""A call that waits for a person, with the lineage of its session."""

from msgspec import Struct

from asyncagents.domain.call import Call
from asyncagents.domain.session import Session


class Waiting(Struct, frozen=True):
    call: Call
    lineage: tuple[Session, ...]
    """The sessions from the root of the tree down to the one that asks."""

    @property
    def who(self) -> str:
        """The person, role or channel that is asked, as free text; empty: any person."""
        return self.call.open.who if self.call.open else ""

    @property
    def until(self) -> int | None:
        """The deadline in ms since the epoch; None: there is none."""
        return self.call.open.due if self.call.open else None
