"""The change feed: a piece of it, and its cursors."""

from msgspec import Struct

from asyncagents.domain.event import Event
from asyncagents.errors import InvalidInput


class Feed(Struct, frozen=True):
    """`reset`: the cursor is too old or of another store; read everything afresh, then follow `cursor`."""

    cursor: str
    events: tuple[Event, ...]
    reset: bool = False
    more: bool = False


def cursor_revision(text: str) -> int:
    """Return the revision of a cursor."""
    return parse_cursor(text)[1]


def parse_cursor(text: str) -> tuple[str, int]:
    """Split a cursor into its epoch and its revision. Raises `InvalidInput`."""
    match text.split("-"):
        case [epoch, "0", rev] if rev.isascii() and rev.isdecimal() and len(rev) < 19:
            return epoch, int(rev)
        case _:
            raise InvalidInput(f"{text[:80]!r} is not a valid cursor; take the one of the last event")
