"""Counts of all that the store holds, at one moment."""

from msgspec import Struct


class Census(Struct, frozen=True, kw_only=True):
    """Counts at one moment; a count at its limit means that many or more."""

    sessions: int
    active: dict[str, int]
    """Sessions of one pool, by state: ready, running."""
    tasks: dict[str, int]
    """Background tasks, by status."""
    asks: int
    """Calls that wait for a person."""
    pending: dict[str, int]
    """Pending calls, by status."""
    deliveries: dict[str, int]
    """Outgoing webhooks that are owed or dead."""
    external_prompts: int
    """Prompts under way at external agents."""
    bytes: int
    late: int
    """By how many ms the oldest due row is overdue; 0: none is."""
