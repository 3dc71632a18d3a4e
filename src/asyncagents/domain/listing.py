"""Filters of a list of sessions, last used first."""

from msgspec import Struct

FOREVER = 2**62


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Filters of sessions; without a directory, sessions of all directories."""

    directory: str | None = None
    below: str | None = None
    """Only sessions of this directory and those below it."""
    roots: bool = False
    """Only sessions without a parent."""
    start: int = 0
    """Only sessions updated at or after this time, in ms since the epoch."""
    before: int = FOREVER
    """Only sessions updated before this time."""
    search: str = ""
    """A part of the title, ignoring case."""
    archived: bool = True
    """Include archived sessions."""
    limit: int = 100
