"""The status of a session as clients see it."""

from typing import TypeAlias

from asyncagents.domain.id import CallId
from asyncagents.domain.shape import Shape


class Idle(Shape, frozen=True, kw_only=True, tag_field="type", tag="idle"):
    """The session has nothing to do."""


class Busy(Shape, frozen=True, kw_only=True, tag_field="type", tag="busy"):
    """The session works, or is about to."""


class RetryAction(Shape, frozen=True, kw_only=True):
    """What the user can do about the failure that is being retried."""

    reason: str
    provider: str
    title: str
    message: str
    label: str
    link: str | None = None


class Retry(Shape, frozen=True, kw_only=True, tag_field="type", tag="retry"):
    """A request to the model failed and is tried again at `next`, in ms since the epoch."""

    attempt: int
    message: str
    next: int
    action: RetryAction | None = None


class WaitingAsync(Shape, frozen=True, kw_only=True, tag_field="type", tag="waiting_async"):
    """The session waits for something outside; the fields are of the open call that expires first."""

    pending_id: CallId
    tool: str
    since: int
    timeout: int | None = None


Status: TypeAlias = Idle | Busy | Retry | WaitingAsync
"""What a session does at the moment."""
