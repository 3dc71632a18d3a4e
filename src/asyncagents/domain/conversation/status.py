"""The status of a session as clients see it."""

from typing import TypeAlias

from asyncagents.domain.id import CallId
from asyncagents.domain.shape import Shape


class Idle(Shape, frozen=True, kw_only=True, tag_field="type", tag="idle"):
    pass


class Busy(Shape, frozen=True, kw_only=True, tag_field="type", tag="busy"):
    pass


class RetryAction(Shape, frozen=True, kw_only=True):
    """What the user can do about the failure that is being retried."""

    reason: str
    provider: str
    title: str
    message: str
    label: str
    link: str | None = None


class Retry(Shape, frozen=True, kw_only=True, tag_field="type", tag="retry"):
    """`next`: when the request is tried again, in ms since the epoch."""

    attempt: int
    message: str
    next: int
    action: RetryAction | None = None


class WaitingAsync(Shape, frozen=True, kw_only=True, tag_field="type", tag="waiting_async"):
    """The open call that expires first."""

    pending_id: CallId
    tool: str
    since: int
    timeout: int | None = None


Status: TypeAlias = Idle | Busy | Retry | WaitingAsync
