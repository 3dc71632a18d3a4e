"""A webhook that one process has claimed to post."""

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.domain.id import CallId


class DueDelivery(Struct, frozen=True):
    """A claimed delivery, with what is needed to post it."""

    id: str
    call_id: CallId
    url: str
    host: str
    secret: Secret | None
    """None: the secret derived for the call."""
    since: int
    attempt: int
    """The number of this try, from 1; `end_attempt` compares it."""
    body: bytes
