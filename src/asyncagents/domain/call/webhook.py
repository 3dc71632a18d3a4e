"""Outgoing webhooks: the body that is sent when a call is settled, and its delivery."""

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.pending_tool import ToolResult, pending_tool_call
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.shape import Shape

DeliveryState: TypeAlias = Literal["owed", "delivered", "dead"]
DELIVERY_STATES: tuple[DeliveryState, ...] = ("owed", "delivered", "dead")
SESSION_DELETED = "The session was deleted before there was a result."


class WebhookBody(Shape, frozen=True, kw_only=True):
    pending_id: CallId
    result: ToolResult | None = None
    error: str | None = None


def webhook_body(call: Call) -> WebhookBody:
    settled = pending_tool_call(call)
    return WebhookBody(pending_id=call.id, result=settled.result, error=settled.error)


class DeliveryTime(Shape, frozen=True, kw_only=True):
    created: int
    next: int | None = None
    """When the next try is, if the state is `owed`."""
    ended: int | None = None


class Delivery(Shape, frozen=True, kw_only=True):
    """An outgoing webhook that is due, delivered or given up.

    `id` is also its `webhook-id`; `error`: why the last try failed. It holds no secret.
    """

    id: str
    pending_id: CallId
    session_id: SessionId
    url: str
    state: DeliveryState
    attempts: int
    error: str | None = None
    time: DeliveryTime


class DeliveryDone(Struct, frozen=True):
    """The receiver accepted the webhook."""


class DeliveryRetry(Struct, frozen=True):
    at: int
    why: str


class DeliveryDead(Struct, frozen=True):
    """The delivery is not tried again unless a person retries it."""

    why: str


DeliveryOutcome: TypeAlias = DeliveryDone | DeliveryRetry | DeliveryDead


def host_of(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def origin_of(url: str) -> str:
    """Return the part of a URL that may be logged: path and query may hold a token."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{host}{port}" if host else "an address that cannot be read"
