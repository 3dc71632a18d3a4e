"""Converts calls for export and import: fields of the part are not repeated, running calls are cut off."""

from typing import Any

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    START_UNSURE,
    AsyncState,
    Call,
    Completed,
    Failed,
    Open,
    Result,
    Running,
    Settled,
)
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.conversation.codec import DECODE_ERRORS
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolWaiting
from asyncagents.domain.id import CallId
from asyncagents.domain.transfer.records import CALL_CUT_OFF, check_id
from asyncagents.errors import InvalidInput

_PART_FIELDS = ("session_id", "message_id", "part_id", "call_id", "tool", "input")
_RESULT_FIELDS = ("output", "title", "metadata", "error", "files")
_REQUESTED = {"type": "requested"}
"""The state of a mark without one: defaults are left out of an export."""


def call_mark(call: Call) -> dict[str, Any]:
    """Build the mark of a call: all fields that its part does not hold."""
    fields: dict[str, Any] = msgspec.to_builtins(call)
    mark = {name: value for name, value in fields.items() if name not in _PART_FIELDS}
    if isinstance(call.state, Settled):
        result = {
            name: value for name, value in mark["state"]["result"].items() if name not in _RESULT_FIELDS
        }
        mark["state"] = {**mark["state"], "result": result}
    return mark


def call_from_mark(mark: dict[str, Any], part: ToolPart) -> Call:
    """Rebuild the call that an exported part was rendered from."""
    fields = {
        **mark,
        "session_id": part.session_id,
        "message_id": part.message_id,
        "part_id": part.id,
        "call_id": part.call_id,
        "tool": part.tool,
        "input": part.state.input,
    }
    state = mark.get("state", _REQUESTED)
    try:
        if state["type"] == "settled":
            fields["state"] = {**state, "result": _result(state["result"], part)}
        call = msgspec.convert(fields, Call)
    except (*DECODE_ERRORS, KeyError, TypeError) as error:
        raise InvalidInput(f"the mark of the call of part {part.id} is unreadable: {error}") from error
    check_id(call.id, "call")
    return call


def _result(mark: dict[str, Any], part: ToolPart) -> dict[str, Any]:
    match part.state:
        case ToolCompleted(output=output, title=title, metadata=metadata, attachments=attached):
            files = [
                {"mime": each.mime, "url": each.url, "filename": each.filename or ""}
                for each in attached or ()
            ]
            fields = {"output": output, "title": title, "metadata": metadata, "files": files}
            return {**mark, "type": "completed", **fields}
        case ToolFailed(error=error, metadata=metadata):
            return {**mark, "type": "failed", "error": error, "metadata": metadata or {}}
        case _:
            raise InvalidInput(f"part {part.id} has no result, though its call is marked as settled")


def at_rest(call: Call, *, now: int) -> Call:
    """Bring a call to rest: an async call waits for its result, any other unsettled call is cut off.

    An ask is not imported: its answer would run arguments that someone else wrote into a file.
    """
    match call.state:
        case Settled():
            return call
        case Open(kind="async" | "wait" | "question", ask=None, watch=None) if call.later is not None:
            return _check_question(call)
        case Open() | Running() if call.later is not None:  # its work may have begun
            since = call.started or call.created
            waits = Open(kind="async", since=since, due=call.later.due, note=START_UNSURE, blocks=False)
            return replace(call.with_state(waits), granted=(), ask_id=None)
        case _:
            return call.with_state(Settled(Failed(CALL_CUT_OFF), now))


def _check_question(call: Call) -> Call:
    """Return the call. Raises `InvalidInput` if its question has the ids of another call."""
    question = call.open.question if call.open else None
    if question and (question.id, question.session_id) != (call.ask_id, call.session_id):
        raise InvalidInput(f"the question of call {call.id!r} is not its own: ids differ")
    return call


def without_webhook(call: Call) -> Call:
    """Drop the webhook address, which in an untrusted export may be anything."""
    if call.later is None or not call.later.webhook_url:
        return call
    return replace(call, later=replace(call.later, webhook_url=""))


def without_server_task(call: Call) -> Call:
    """Drop the task of an MCP server and its forms: an untrusted export may name the task of another call."""
    if call.later is None or call.later.server_task is None:
        return call
    call = replace(call, later=replace(call.later, server_task=None))
    return replace(call, state=replace(call.open, question=None), ask_id=None) if call.open else call


def call_from_record(
    pending_call: PendingToolCall, part: ToolPart, *, turn: int, agent: str, shown: bool
) -> Call:
    """Build a call from another program's record of it."""
    _check_same(pending_call, part)
    state = AsyncState(
        due=pending_call.timeout,
        estimated=pending_call.estimated_duration,
        external_ref=pending_call.external_ref or "",
        webhook_url=pending_call.webhook_url or "",
    )
    return Call(
        id=CallId(check_id(pending_call.id, "pending call")),
        session_id=part.session_id,
        message_id=part.message_id,
        part_id=part.id,
        call_id=part.call_id,
        tool=part.tool,
        input=pending_call.input,
        turn=turn,
        agent=agent,
        created=pending_call.time.created,
        started=pending_call.time.started or part.state.time.start
        if isinstance(part.state, ToolWaiting)
        else None,
        shown_pending=shown,
        later=state,
        state=_record_state(pending_call, part),
    )


def _record_state(pending_call: PendingToolCall, part: ToolPart) -> Open | Settled:
    if pending_call.status in ("waiting", "processing"):
        note = part.state.output if isinstance(part.state, ToolWaiting) else None
        since = pending_call.time.created
        return Open(kind="async", since=since, due=pending_call.timeout, note=note or "", blocks=False)
    ended = pending_call.time.completed or pending_call.time.created
    return Settled(_record_result(pending_call), ended, expired=pending_call.status == "expired")


def _record_result(pending_call: PendingToolCall) -> Result:
    if pending_call.result is None:
        return Failed(pending_call.error or CALL_CUT_OFF)
    return Completed(pending_call.result.output, pending_call.result.title, pending_call.result.metadata)


def _check_same(pending_call: PendingToolCall, part: ToolPart) -> None:
    identity = pending_call.session_id, pending_call.message_id, pending_call.call_id, pending_call.tool
    if identity != (part.session_id, part.message_id, part.call_id, part.tool):
        raise InvalidInput(
            f"pending call {pending_call.id!r} is not that of part {part.id!r}: ids or tools differ"
        )
