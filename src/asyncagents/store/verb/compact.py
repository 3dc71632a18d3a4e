"""Decides whether a step becomes a summary, and prunes output from what the model reads."""

from collections.abc import Sequence

from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import Unreadable, decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef, UserMessage
from asyncagents.domain.conversation.part import CompactionPart, ToolCompleted, ToolPart
from asyncagents.domain.conversation.system_message import MessageTarget, build_user_message
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.session_state import SUMMARY_WANTED, Claim, Control
from asyncagents.domain.step import NewSummary
from asyncagents.store.row import (
    check_claim,
    decode_call,
    insert_message,
    put_call,
    put_part,
    read_part,
    unsettled_calls,
)
from asyncagents.store.tx import Row, Tx

SUMMARISER = "compaction"
"""The agent that writes summaries."""


async def step_or_summary(
    tx: Tx, control: Control, step: AssistantMessage, new: NewSummary | None, *, estimate: int
) -> tuple[Control, AssistantMessage]:
    """Return the step, or turn it into a summary if one was requested or the window has no room."""
    if new is None:
        return control, step
    full = new.room is not None and estimate >= new.room
    if full and not control.compacting and await can_shrink(tx, control):
        control = replace(control, compacting=SUMMARY_WANTED)
    if control.compacting == SUMMARY_WANTED:
        control = await _request_summary(tx, control, step, new)
    if not control.compacting:
        return control, step
    asked = await tx.one("message_at", control.id, control.compacting)
    assert asked is not None, "the request was placed"
    model = new.model or await _requested_model(tx, MessageId(asked[0])) or step.model_ref
    return control, replace(
        step,
        parent_id=MessageId(asked[0]),
        agent=SUMMARISER,
        mode=SUMMARISER,
        summary=True,
        provider_id=model.provider_id,
        model_id=model.model_id,
        variant=model.variant,
    )


async def _requested_model(tx: Tx, message_id: MessageId) -> ModelRef | None:
    """The model that a request for a summary names; the session's own model goes on afterwards."""
    row = await tx.one("message", message_id)
    message = decode_message(upcast(row[6], row[5])) if row is not None else None
    return message.model if isinstance(message, UserMessage) else None


async def _request_summary(tx: Tx, control: Control, step: AssistantMessage, new: NewSummary) -> Control:
    """Insert an automatic request for a summary, visible to people."""
    target = MessageTarget(control.id, step.agent, step.model_ref)
    message = build_user_message(target, new.message_id, tx.now)
    place = control.positions + 1
    await insert_message(tx, message, position=place, turn=control.turn)
    part = CompactionPart(id=new.part_id, session_id=control.id, message_id=message.id, auto=True)
    await put_part(tx, part)
    return replace(control, positions=place, compacting=place)


async def can_shrink(tx: Tx, control: Control) -> bool:
    """Whether a step ended since the last summary; if none did, another summary would free nothing.

    A step that was refused for its length counts, too, once its turn is over: the history is still too long.
    """
    return await tx.one("step_since", control.id, control.summary) is not None


async def show_pending(tx: Tx, control: Control) -> None:
    """Mark the unsettled calls as shown to the model as pending."""
    for call in await unsettled_calls(tx, control.id):
        if not call.shown_pending:
            await put_call(tx, replace(call, shown_pending=True))


async def prune(tx: Tx, claim: Claim, parts: Sequence[PartId]) -> None:
    """Leave the output of these calls out of what the model reads; people still see it."""
    await check_claim(tx, claim)
    for part_id in parts:
        row = await tx.one("call_by_part", part_id)
        call = _decode_readable(row) if row is not None else None
        if call is not None:
            await put_call(tx, replace(call, compacted=tx.now))
            continue
        part_row = await tx.one("part", part_id)
        part = read_part(part_row) if part_row else None
        if isinstance(part, ToolPart) and isinstance(part.state, ToolCompleted):
            time = replace(part.state.time, compacted=tx.now)
            await put_part(tx, replace(part, state=replace(part.state, time=time)))


def _decode_readable(row: Row) -> Call | None:
    """Decode a call; None if a newer program wrote it: its part holds all that is needed."""
    try:
        return decode_call(row)
    except Unreadable:
        return None
