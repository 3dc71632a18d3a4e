"""Which sessions a list has, the last used first."""

from msgspec import Struct

FOREVER = 2**62


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Without a directory, of all of them."""

    directory: str | None = None
    below: str | None = None
    """This directory, and all below it."""
    roots: bool = False
    """Only those that nobody started."""
    start: int = 0
    """Changed then or later, in ms since the epoch."""
    before: int = FOREVER
    """Changed before then."""
    search: str = ""
    """What their titles have in them, in whatever case."""
    archived: bool = True
    """Also those that were put away."""
    limit: int = 100
