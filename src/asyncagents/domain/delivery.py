"""What is posted when a call is settled, and how that went."""

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from asyncagents.domain.call import Call
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.pending_tool import ToolResult, pending_tool
from asyncagents.domain.shape import Shape

DeliveryState: TypeAlias = Literal["owed", "delivered", "dead"]
STATES: tuple[DeliveryState, ...] = ("owed", "delivered", "dead")
DELETED = "The session was deleted before there was a result."


class Told(Shape, frozen=True, kw_only=True):
    pending_id: CallId
    result: ToolResult | None = None
    error: str | None = None


def told(call: Call) -> Told:
    settled = pending_tool(call)
    return Told(pending_id=call.id, result=settled.result, error=settled.error)


class DeliveryTime(Shape, frozen=True, kw_only=True):
    created: int
    next: int | None = None
    """When it is tried again, if it is owed."""
    ended: int | None = None


class Delivery(Shape, frozen=True, kw_only=True):
    """`id` is also its `webhook-id`; `error`: why the last try failed. No secret is in it."""

    id: str
    pending_id: CallId
    session_id: SessionId
    url: str
    state: DeliveryState
    attempts: int
    error: str | None = None
    time: DeliveryTime


class Delivered(Struct, frozen=True):
    """Whoever was to be told said that it heard."""


class Again(Struct, frozen=True):
    at: int
    why: str


class Dead(Struct, frozen=True):
    """It is not tried again, unless somebody wants it to."""

    why: str


Verdict: TypeAlias = Delivered | Again | Dead


def host_of(url: str) -> str:
    """Who is told; empty: nobody can be."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def origin_of(url: str) -> str:
    """What may be logged of an address: beyond its host it may hold a token."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{host}{port}" if host else "an address that cannot be read"
