"""A step of the model: start it, write its parts as they stream, finish or retry it, advance its calls."""

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Running, Settled, move_call
from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import ContextOverflowError, unknown_error
from asyncagents.domain.conversation.message import AssistantMessage, MessagePath, MessageTime, UserMessage
from asyncagents.domain.conversation.part import Part, StepStartPart, ToolPart
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.event import Event, SessionError
from asyncagents.domain.id import MessageId, PartId, RequestId
from asyncagents.domain.session_state import SUMMARY_WANTED, Claim, Control, Snapshot
from asyncagents.domain.shape import encode
from asyncagents.domain.step import (
    CallMove,
    NewStep,
    OutputFormat,
    StartedStep,
    StepEnd,
    StepRetry,
)
from asyncagents.domain.window import estimate_output, estimate_tokens, tokens_used
from asyncagents.store.row import (
    SessionRow,
    check_claim,
    claimed_session,
    decode_call,
    find_backoff,
    insert_message,
    put_call,
    put_part,
    request_tokens,
    require_call,
    require_session,
    save_message,
    save_session,
    snapshot,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb import todo
from asyncagents.store.verb.answer_event import publish_ask, save_answer
from asyncagents.store.verb.claim import add_usage
from asyncagents.store.verb.compact import can_shrink, show_pending, step_or_summary
from asyncagents.store.verb.drop_undone import drop_undone
from asyncagents.store.verb.external import end_external_prompt, end_observed_calls
from asyncagents.store.verb.fact import apply_facts
from asyncagents.store.verb.output_format import find_output_format, turn_system_text
from asyncagents.store.verb.promote import Unread, UnreadInput, promote, read_unread
from asyncagents.store.verb.read import history_between, lineage, shown_calls
from asyncagents.store.verb.remind import insert_reminders
from asyncagents.store.verb.subtask import begin_subtasks, prompt_to_continue, subtasks
from asyncagents.store.verb.turn_end import answer_before_joining, answer_earlier_prompts, end_turn


class _Try(Struct, frozen=True):
    """The number of a try, and the empty message that the try before it left."""

    attempt: int = 1
    estimate: Tokens = Tokens.zero()
    message: AssistantMessage | None = None
    position: int = 0


async def start_step(tx: Tx, claim: Claim, new: NewStep) -> StartedStep | None:
    """Promote unread input, show open calls as pending, insert the step. None: no step is needed any more."""
    row = await claimed_session(tx, claim)
    if row.info.revert is not None:
        row = await drop_undone(tx, row)
    inbox = await read_unread(tx, row.control.id)
    unread = inbox.inputs
    if not inbox.needs_step(row.control):
        return None
    await answer_before_joining(tx, row.control, joins=inbox.wants_another_answer)
    before = await end_backoff(tx, row.control, reuse=not inbox.has_items)
    control, asked_by = await _promote_unread(tx, row, inbox, new, reuse=before.message is not None)
    tail = await history_between(tx, control.id, new.since)
    if tasks := subtasks(tail, {each.message_id for each in unread}):
        made = await _new_message(tx, row, new, asked_by)
        await save_session(tx, row, await begin_subtasks(tx, control, made, tasks, effect=new.tasking.effect))
        return None
    control, tail = await prompt_to_continue(tx, control, tail, new.tasking)
    shown = await shown_calls(tx, control.id, tail)
    estimate = max(
        _estimate(tail, shown, new.history_tokens), before.estimate, key=lambda tokens: tokens.input
    )
    message, position = before.message, before.position
    if message is None:
        message = await _new_message(tx, row, new, asked_by)
        control, message = await _insert_step(tx, control, message, new, estimate=estimate.input)
        position = control.positions
    await _insert_request(tx, control, new.request_id, message.id, before.attempt, estimate)
    await save_session(tx, row, control)
    form, system = (
        await _prompt_options(tx, row.control, control, unread) if not message.summary else (None, "")
    )
    above = await lineage(tx, control.parent_id) if new.with_lineage and control.parent_id else ()
    number = control.steps + 1
    return StartedStep(
        message, position, control.turn, number, before.attempt, tail, shown, form, above, system
    )


async def _promote_unread(
    tx: Tx, row: SessionRow, inbox: Unread, new: NewStep, *, reuse: bool
) -> tuple[Control, UserMessage | None]:
    """Promote unread input, show open calls as pending; insert reminders unless a message is reused."""
    control = replace(row.control, backoff=None)
    control, asked_by = await promote(tx, control, row.info, inbox, options=new.notices)
    await show_pending(tx, control)
    if not reuse and new.reminder is not None and (asked_by or not control.compacting):
        spoken = row.control.positions if any(each.source == "person" for each in inbox.inputs) else None
        control = await insert_reminders(tx, control, asked_by, new.reminder, spoken=spoken)
    return control, asked_by


async def _insert_step(
    tx: Tx, control: Control, message: AssistantMessage, new: NewStep, *, estimate: int
) -> tuple[Control, AssistantMessage]:
    """Insert the step, or the summary that is needed first, at the next position."""
    control, message = await step_or_summary(tx, control, message, new.summary, estimate=estimate)
    control = replace(control, positions=control.positions + 1)
    await insert_message(tx, message, position=control.positions, turn=control.turn)
    await put_part(tx, StepStartPart(id=new.part_id, session_id=control.id, message_id=message.id))
    return control, message


async def _prompt_options(
    tx: Tx, before: Control, control: Control, unread: tuple[UnreadInput, ...]
) -> tuple[OutputFormat | None, str]:
    """Read the output format and the system text that prompts of this turn ask for; few prompts do."""
    formed = before.in_turn or any(b'"format":' in each.info for each in unread)
    has_system = before.in_turn or any(b'"system":' in each.info for each in unread)
    return await find_output_format(tx, control) if formed else None, await turn_system_text(
        tx, control
    ) if has_system else ""


async def end_backoff(tx: Tx, control: Control, *, reuse: bool) -> _Try:
    """End a backoff. The message of a try without output is reused for the next try, or closed."""
    backoff = await find_backoff(tx, control)
    if backoff is None:
        return _Try()
    await tx.one("end_backoff", backoff.request_id)
    again = _Try(backoff.attempt + 1, backoff.estimate)
    row = await tx.one("message", backoff.message_id)
    if row is None or row[4]:  # no message yet, or one that was closed with its try
        return again
    message = decode_message(upcast(row[6], row[5]))
    assert isinstance(message, AssistantMessage)
    if reuse:
        return replace(again, message=message, position=row[2])
    if message.time.completed is None:
        time = replace(message.time, completed=tx.now)
        await save_message(tx, replace(message, error=unknown_error(backoff.failure), time=time), hidden=True)
    return again


async def _insert_request(  # noqa: PLR0917  the columns of its row
    tx: Tx, control: Control, request_id: RequestId, message_id: str, attempt: int, estimate: Tokens
) -> None:
    columns = request_id, control.id, message_id, control.turn, control.fence, attempt
    await tx.one("insert_request", *columns, encode(estimate), tx.now)


async def _new_message(
    tx: Tx, row: SessionRow, new: NewStep, asked_by: UserMessage | None
) -> AssistantMessage:
    """Build the step's message: it answers the newest promoted message, or the one the last step answered."""
    parent, agent, model_id, provider_id, variant = await _addressee(tx, row, asked_by)
    return AssistantMessage(
        id=new.message_id,
        session_id=row.control.id,
        parent_id=parent,
        time=MessageTime(created=tx.now),
        model_id=model_id,
        provider_id=provider_id,
        variant=variant,
        mode=agent,
        agent=agent,
        path=MessagePath(cwd=row.info.directory, root=row.info.directory),
        cost=0,
        tokens=Tokens.zero(),
    )


async def _addressee(
    tx: Tx, row: SessionRow, asked_by: UserMessage | None
) -> tuple[MessageId, str, str, str, str | None]:
    if asked_by is not None:
        model = asked_by.model
        return asked_by.id, asked_by.agent, model.model_id, model.provider_id, model.variant
    last = await tx.one("last_message", row.control.id)
    assert last is not None, "a step needs something to answer"
    before = decode_message(upcast(last[1], last[0]))
    if isinstance(before, UserMessage):
        asked = await tx.one("newest_promoted", row.control.id)
        before = decode_message(upcast(asked[1], asked[0])) if asked else before
        assert isinstance(before, UserMessage)
        return before.id, before.agent, before.model.model_id, before.model.provider_id, before.model.variant
    return before.parent_id, before.agent, before.model_id, before.provider_id, before.variant


def _estimate(tail: tuple[MessageWithParts, ...], shown: frozenset[PartId], history_tokens: int) -> Tokens:
    """Estimate the input tokens: all that is sent, or the last reported usage and all since, if larger."""
    return replace(
        Tokens.zero(),
        input=max(history_tokens + estimate_tokens(tail, shown), _since_last_report(tail, shown)),
    )


def _since_last_report(tail: tuple[MessageWithParts, ...], shown: frozenset[PartId]) -> int:
    """Tokens of the last step that reported its usage, the results of its calls, and all that follows."""
    since = 0
    for entry in reversed(tail):
        step = entry.info if isinstance(entry.info, AssistantMessage) else None
        if step is not None and step.finish and not step.summary and tokens_used(step.tokens):
            calls = (part for part in entry.parts if isinstance(part, ToolPart))
            return tokens_used(step.tokens) + sum(estimate_output(call, shown) for call in calls) + since
        since += estimate_tokens((entry,), shown)
    return 0


async def write_parts(tx: Tx, claim: Claim, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    """Write parts of a step as it streams; `events` are those that were not published yet."""
    await check_claim(tx, claim)
    await _put_parts(tx, parts, events)


async def _put_parts(tx: Tx, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    for part in parts:
        await put_part(tx, part, publish=False)
    for event in events:
        tx.emit(event)


async def finish_step(tx: Tx, claim: Claim, end: StepEnd) -> Snapshot:
    """Close the step and insert its calls, in one transaction: no tool starts before it commits."""
    row = await claimed_session(tx, claim)
    reported = encode(end.known_tokens) if end.known_tokens else None
    how = "refused" if isinstance(end.message.error, ContextOverflowError) else "done"
    shrinks = end.full and end.message.error is not None and await can_shrink(tx, row.control)
    if not await tx.run("end_request", how, reported, end.request_id):  # a repetition: it had ended before
        return await snapshot(tx, row)
    info = add_usage(row.info, end.known_tokens or await request_tokens(tx, end.request_id), end.message.cost)
    control = row.control.after_progress()
    if end.full:
        control = replace(control, compacting=control.compacting or SUMMARY_WANTED)
    if shrinks:
        await write_step_end(tx, end, hidden=True)
        return await snapshot(tx, await save_session(tx, row, control, info))
    await write_step_end(tx, await _count_repeats(tx, end), hidden=False)
    if end.unfinished is not None:
        await end_observed_calls(tx, info, end.message.id, end.unfinished)
        arrived = end.message.error is None or end.has_output
        await end_external_prompt(tx, control.id, cost=end.message.cost, arrived=arrived)
    if end.message.error is not None:
        control = replace(control, compacting=row.control.compacting)
        tx.emit(SessionError(session_id=control.id, error=end.message.error))
    control = replace(control, steps=control.steps + 1)
    if end.over is not None:
        return await _end_turn_if_over(tx, row, replace(row, control=control, info=info), end)
    row = await save_session(tx, row, control, info)
    if end.facts and not control.is_cancelled():
        await apply_facts(tx, end.facts)
        row = await claimed_session(tx, claim)  # a fact may be about this very session
    about = await snapshot(tx, row, last=end.message)
    await answer_earlier_prompts(tx, about)
    return about


async def _end_turn_if_over(tx: Tx, before: SessionRow, now: SessionRow, end: StepEnd) -> Snapshot:
    """End the turn with its last step if nothing is left to do: saves a transaction for most turns."""
    assert end.over is not None and not end.facts, "only such a step may be the last"
    about = await snapshot(tx, now, last=end.message)
    if end.goes_on is not None and end.over(about):
        await save_session(tx, before, now.control, now.info)
        await apply_facts(tx, (end.goes_on,))
        return await snapshot(tx, await require_session(tx, now.control.id), last=end.message)
    if not end.over(about) or (end.minds_todos and await todo.has_open_todos(tx, now.control.id)):
        await save_session(tx, before, now.control, now.info)
        await answer_earlier_prompts(tx, about)
        return about
    return replace(about, control=await end_turn(tx, before, now.control, now.info, answer=end.message.id))


async def _count_repeats(tx: Tx, end: StepEnd) -> StepEnd:
    """Set in each call how many equal calls came just before it in this turn."""
    if not end.calls:
        return end
    found = await tx.one("last_call", end.message.session_id)
    before = decode_call(found) if found else None
    calls = []
    for call in end.calls:
        again = before is not None and (before.turn, *before.repeat_key) == (call.turn, *call.repeat_key)
        before = replace(call, repeats=before.repeats + 1) if before is not None and again else call
        calls.append(before)
    return replace(end, calls=tuple(calls))


async def write_step_end(tx: Tx, end: StepEnd, *, hidden: bool) -> None:
    """Write the parts, the calls and the message of a finished step."""
    await _put_parts(tx, end.parts, end.events)
    for call in end.calls:
        await put_call(tx, call)
    await save_message(tx, end.message, hidden=hidden)


async def retry_step(tx: Tx, claim: Claim, retry: StepRetry) -> Snapshot:
    """Close a step that failed and store the time of its next try, which any process may make."""
    row = await claimed_session(tx, claim)
    end, failure = retry.end, retry.part.error.data.message
    spent = end.known_tokens or await request_tokens(tx, end.request_id)
    columns = retry.next_at, failure, encode(spent), end.tokens is None
    if not await tx.run("back_off", *columns, end.request_id):  # a repetition
        return await snapshot(tx, row)
    if end.has_output:
        await write_step_end(tx, end, hidden=True)
    info = add_usage(row.info, spent, end.message.cost)
    await put_part(tx, retry.part)
    tx.schedule(retry.next_at)
    row = await save_session(tx, row, replace(row.control.after_progress(), backoff=end.request_id), info)
    return await snapshot(tx, row)


async def hold_step(tx: Tx, claim: Claim, request_id: RequestId, *, until: int, why: str) -> Snapshot:
    """Postpone a step while its provider cools down, without counting a try."""
    row = await claimed_session(tx, claim)
    tx.schedule(until)
    waiting = row.control.backoff or request_id
    if row.control.backoff is None:
        await _insert_request(tx, row.control, request_id, "", 0, Tokens.zero())
        await tx.one("back_off", until, why, encode(Tokens.zero()), False, request_id)
    else:
        await tx.one("hold_back", until, why, waiting)
    row = await save_session(tx, row, replace(row.control, backoff=waiting))
    return await snapshot(tx, row)


async def advance(tx: Tx, claim: Claim, moves: tuple[CallMove, ...]) -> Snapshot:
    """Move calls to a new state: start them, open them, or put them back. A settled call never changes.

    No call is started in a cancelled turn.
    """
    row = await claimed_session(tx, claim)
    cancelled = row.control.is_cancelled()
    for move in moves:
        call = await require_call(tx, move.call_id)
        if isinstance(call.state, Settled) or (cancelled and isinstance(move.state, Running)):
            continue
        after = move_call(call, move.state, tx.now)
        await save_answer(tx, call, after)
        await put_call(tx, after)
        publish_ask(tx, after)
    return await snapshot(tx, row)
