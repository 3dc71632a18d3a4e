"""Pending calls as clients see them."""

from typing import Any, Literal, TypeAlias

import msgspec

from asyncagents.domain.call.call import Call, Completed, Failed, Open, Requested, Running, Settled
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.domain.shape import Shape

PendingStatus: TypeAlias = Literal["waiting", "processing", "completed", "failed", "expired"]


class PendingTime(Shape, frozen=True, kw_only=True):
    created: int
    started: int | None = None
    completed: int | None = None


class ToolResult(Shape, frozen=True, kw_only=True):
    """The result of a pending call."""

    title: str
    output: str
    metadata: dict[str, Any]


class PendingToolCall(Shape, frozen=True, kw_only=True):
    """A pending call: a call of an async tool, kept long after it is settled.

    `timeout`: the deadline, in ms since the epoch. It holds no secret.
    """

    id: CallId
    session_id: SessionId
    message_id: MessageId
    part_id: PartId
    call_id: str
    tool: str
    input: dict[str, Any]
    status: PendingStatus
    webhook_url: str | None = msgspec.field(default=None, name="webhookURL")
    external_ref: str | None = None
    timeout: int | None = None
    estimated_duration: int | None = None
    time: PendingTime
    result: ToolResult | None = None
    error: str | None = None


def pending_status(call: Call) -> PendingStatus | None:
    """Return the status of a pending call; None if the call is not one of an async tool."""
    if call.later is None:
        return None
    match call.state:
        case Requested() | Running():
            return "processing"
        case Open():
            return "waiting" if not call.only_asks else "processing"
        case Settled(Failed(), expired=True):
            return "expired"
        case Settled(result):  # a timer that expires completes the call
            return _settled_status(result)


def pending_tool_call(call: Call) -> PendingToolCall:
    state, done = call.later, call.state if isinstance(call.state, Settled) else None
    result = done.result if done else None
    return PendingToolCall(
        id=call.id,
        session_id=call.session_id,
        message_id=call.message_id,
        part_id=call.part_id,
        call_id=call.call_id,
        tool=call.tool,
        input=call.input,
        status=pending_status(call) or ("waiting" if call.open else _settled_status(result)),
        webhook_url=(state.webhook_url if state else "") or None,
        external_ref=(state.external_ref if state else "") or None,
        timeout=state.due if state else call.open.due if call.open else None,
        estimated_duration=state.estimated if state else None,
        time=PendingTime(created=call.created, started=call.started, completed=done.at if done else None),
        result=_tool_result(result) if isinstance(result, Completed) else None,
        error=result.error if isinstance(result, Failed) else None,
    )


def _settled_status(result: Completed | Failed | None) -> PendingStatus:
    """Return the status of a settled call; `processing` without a result."""
    if result is None:
        return "processing"
    return "completed" if isinstance(result, Completed) else "failed"


def _tool_result(result: Completed) -> ToolResult:
    return ToolResult(title=result.title, output=result.output, metadata=result.metadata)
