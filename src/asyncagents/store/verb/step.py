"""A step of the model: start it, write its parts as they stream, finish or retry it, advance its calls."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, CallState, Running, Settled, moved
from asyncagents.domain.control import WANTED, Control, Lease, Snapshot
from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.failure import ContextOverflowError, MessageAbortedError, unknown
from asyncagents.domain.conversation.message import AssistantMessage, MessagePath, MessageTime, UserMessage
from asyncagents.domain.conversation.part import Part, RetryPart, StepStartPart, ToolPart
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.event import Event, SessionError
from asyncagents.domain.fact import Admit, Fact
from asyncagents.domain.id import CallId, MessageId, PartId, RequestId
from asyncagents.domain.shape import encode
from asyncagents.domain.window import output_weight, taken, weight
from asyncagents.store.row import (
    SessionRow,
    check_lease,
    decode_call,
    find_backoff,
    held,
    insert_message,
    put_call,
    put_part,
    request_tokens,
    save,
    save_message,
    snapshot,
    the_call,
    the_session,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb import todo
from asyncagents.store.verb.answer_event import asked, keep_answer
from asyncagents.store.verb.claim import charged
from asyncagents.store.verb.compact import NewSummary, can_shrink, instead, show_pending
from asyncagents.store.verb.drop_undone import clear_undone
from asyncagents.store.verb.fact import apply
from asyncagents.store.verb.output_format import Wanted, system_of, wanted
from asyncagents.store.verb.promote import Told, Unread, mailbox, promote
from asyncagents.store.verb.read import lineage, placed, shown_calls
from asyncagents.store.verb.remind import Aside, remind
from asyncagents.store.verb.subtask import Tasking, begin_tasks, go_on, subtasks
from asyncagents.store.verb.turn_end import answer_before, answer_earlier, end_turn


class NewStep(Struct, frozen=True, kw_only=True):
    """A step to start; the run makes the ids because it streams under them."""

    message_id: MessageId
    part_id: PartId
    request_id: RequestId
    since: int
    """The position from which on the run has not read the history yet."""
    aside: Aside | None = None
    told: int = 0
    """Estimated tokens of the history before `since`, the system text and the tools."""
    summary: NewSummary | None = None
    """How to ask for a summary instead, if one is needed."""
    tasking: Tasking = Tasking()
    telling: Told = Told()
    kin: bool = False
    """Whether to read the lineage of the session."""


class Started(Struct, frozen=True):
    message: AssistantMessage
    position: int
    turn: int
    number: int
    attempt: int
    tail: tuple[Entry, ...]
    """The history from `since` on, before this step."""
    shown: frozenset[PartId]
    """The tool parts whose calls are shown to the model as pending."""
    wanted: Wanted | None = None
    """The output format that the turn asks for."""
    above: tuple[Session, ...] = ()
    """The lineage above the session, root first, if `with_lineage` was set."""
    system: str = ""
    """The system text of the turn's prompts, beside the agent's instructions."""


class _Try(Struct, frozen=True):
    """The number of a try, and the empty message that the try before it left."""

    attempt: int = 1
    estimate: Tokens = Tokens.zero()
    message: AssistantMessage | None = None
    position: int = 0


class StepEnd(Struct, frozen=True, kw_only=True):
    request_id: RequestId
    message: AssistantMessage
    parts: tuple[Part, ...]
    events: tuple[Event, ...] = ()
    """Events of the parts that were not published yet."""
    calls: tuple[Call, ...] = ()
    tokens: Tokens | None = None
    """What the provider reported; without a report the estimate is charged, and marked as one."""
    said: bool = True
    """Whether the model produced output; a request that failed without output and report is free."""
    full: bool = False
    """The context window is full: the step came close to its limit, or the provider refused its length."""
    facts: tuple[Fact, ...] = ()
    """Facts that commit with the step, unless the turn was cancelled."""
    over: Callable[[Snapshot], bool] | None = None
    """Pure predicate: whether the turn ends with this step. None: hooks must be asked first."""
    minds_todos: bool = False
    """Do not end the turn here while todos are left: hooks must be asked first."""
    goes_on: Admit | None = None
    """Input to admit instead of ending the turn with this step; requires `over`."""

    @property
    def spent(self) -> Tokens | None:
        """Tokens to charge; None: not known, so the estimate is charged."""
        free = self.message.error is not None and not isinstance(self.message.error, MessageAbortedError)
        return self.tokens or (Tokens.zero() if free and not self.said else None)


async def start_step(tx: Tx, lease: Lease, new: NewStep) -> Started | None:
    """Promote unread input, show open calls as pending, insert the step. None: no step is needed any more."""
    row = await held(tx, lease)
    if row.info.revert is not None:
        row = await clear_undone(tx, row)
    mail = await mailbox(tx, row.control.id)
    unread = mail.inputs
    if not mail.wants_a_step(row.control):
        return None
    await answer_before(tx, row.control, joins=mail.wants_another_answer)
    before = await end_backoff(tx, row.control, reuse=not mail.anything)
    control = replace(row.control, backoff=None)
    control, asked_by = await promote(tx, control, row.info, mail, told=new.telling)
    await show_pending(tx, control)
    if before.message is None and new.aside is not None and (asked_by or not control.compacting):
        spoken = row.control.positions if any(each.source == "person" for each in unread) else None
        control = await remind(tx, control, asked_by, new.aside, spoken=spoken)
    tail = await placed(tx, control.id, new.since)
    if tasks := subtasks(tail, {each.message_id for each in unread}):
        made = await _message(tx, row, new, asked_by)
        await save(tx, row, await begin_tasks(tx, control, made, tasks, effect=new.tasking.effect))
        return None
    control, tail = await go_on(tx, control, tail, new.tasking)
    shown = await shown_calls(tx, control.id, tail)
    estimate = max(_estimate(tail, shown, new.told), before.estimate, key=lambda tokens: tokens.input)
    message, position = before.message, before.position
    if message is None:
        message = await _message(tx, row, new, asked_by)
        control, message = await instead(tx, control, message, new.summary, estimate=estimate.input)
        position = control.positions + 1
        control = replace(control, positions=position)
        await insert_message(tx, message, position=position, turn=control.turn)
        await put_part(tx, StepStartPart(id=new.part_id, session_id=control.id, message_id=message.id))
    await _request(tx, control, new.request_id, message.id, before.attempt, estimate)
    await save(tx, row, control)
    form, system = await _beside(tx, row.control, control, unread) if not message.summary else (None, "")
    above = await lineage(tx, control.parent_id) if new.kin and control.parent_id else ()
    number = control.steps + 1
    return Started(message, position, control.turn, number, before.attempt, tail, shown, form, above, system)


async def _beside(
    tx: Tx, before: Control, control: Control, unread: tuple[Unread, ...]
) -> tuple[Wanted | None, str]:
    """Read the output format and the system text that prompts of this turn ask for; few prompts do."""
    formed = before.in_turn or any(b'"format":' in each.info for each in unread)
    told = before.in_turn or any(b'"system":' in each.info for each in unread)
    return await wanted(tx, control) if formed else None, await system_of(tx, control) if told else ""


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
        await save_message(tx, replace(message, error=unknown(backoff.failure), time=time), hidden=True)
    return again


async def _request(  # noqa: PLR0917  the columns of its row
    tx: Tx, control: Control, request_id: RequestId, message_id: str, attempt: int, estimate: Tokens
) -> None:
    columns = request_id, control.id, message_id, control.turn, control.fence, attempt
    await tx.one("insert_request", *columns, encode(estimate), tx.now)


async def _message(tx: Tx, row: SessionRow, new: NewStep, asked_by: UserMessage | None) -> AssistantMessage:
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


def _estimate(tail: tuple[Entry, ...], shown: frozenset[PartId], told: int) -> Tokens:
    """Estimate the input tokens: all that is sent, or the last reported usage and all since, if larger."""
    return replace(Tokens.zero(), input=max(told + weight(tail, shown), _since_last_told(tail, shown)))


def _since_last_told(tail: tuple[Entry, ...], shown: frozenset[PartId]) -> int:
    """Tokens of the last step that reported its usage, the results of its calls, and all that follows."""
    since = 0
    for entry in reversed(tail):
        step = entry.info if isinstance(entry.info, AssistantMessage) else None
        if step is not None and step.finish and not step.summary and taken(step.tokens):
            calls = (part for part in entry.parts if isinstance(part, ToolPart))
            return taken(step.tokens) + sum(output_weight(call, shown) for call in calls) + since
        since += weight((entry,), shown)
    return 0


async def write_parts(tx: Tx, lease: Lease, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    """Write parts of a step as it streams; `events` are those that were not published yet."""
    await check_lease(tx, lease)
    await _write(tx, parts, events)


async def _write(tx: Tx, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    for part in parts:
        await put_part(tx, part, publish=False)
    for event in events:
        tx.emit(event)


async def finish_step(tx: Tx, lease: Lease, end: StepEnd) -> Snapshot:
    """Close the step and insert its calls, in one transaction: no tool starts before it commits."""
    row = await held(tx, lease)
    reported = encode(end.spent) if end.spent else None
    how = "refused" if isinstance(end.message.error, ContextOverflowError) else "done"
    shrinks = end.full and end.message.error is not None and await can_shrink(tx, row.control)
    if not await tx.run("end_request", how, reported, end.request_id):  # a repetition: it had ended before
        return await snapshot(tx, row)
    info = charged(row.info, end.spent or await request_tokens(tx, end.request_id), end.message.cost)
    control = row.control.progressed()
    if end.full:
        control = replace(control, compacting=control.compacting or WANTED)
    if shrinks:
        await close(tx, end, hidden=True)
        return await snapshot(tx, await save(tx, row, control, info))
    await close(tx, await _counted(tx, end), hidden=False)
    if end.message.error is not None:
        control = replace(control, compacting=row.control.compacting)
        tx.emit(SessionError(session_id=control.id, error=end.message.error))
    control = replace(control, steps=control.steps + 1)
    if end.over is not None:
        return await _perhaps_the_last(tx, row, replace(row, control=control, info=info), end)
    row = await save(tx, row, control, info)
    if end.facts and not control.cancelled():
        await apply(tx, end.facts)
        row = await held(tx, lease)  # a fact may be about this very session
    about = await snapshot(tx, row, last=end.message)
    await answer_earlier(tx, about)
    return about


async def _perhaps_the_last(tx: Tx, before: SessionRow, now: SessionRow, end: StepEnd) -> Snapshot:
    """End the turn with its last step if nothing is left to do: saves a transaction for most turns."""
    assert end.over is not None and not end.facts, "only such a step may be the last"
    about = await snapshot(tx, now, last=end.message)
    if end.goes_on is not None and end.over(about):
        await save(tx, before, now.control, now.info)
        await apply(tx, (end.goes_on,))
        return await snapshot(tx, await the_session(tx, now.control.id), last=end.message)
    if not end.over(about) or (end.minds_todos and await todo.are_left(tx, now.control.id)):
        await save(tx, before, now.control, now.info)
        await answer_earlier(tx, about)
        return about
    return replace(about, control=await end_turn(tx, before, now.control, now.info, answer=end.message.id))


async def _counted(tx: Tx, end: StepEnd) -> StepEnd:
    """Set in each call how many equal calls came just before it in this turn."""
    if not end.calls:
        return end
    found = await tx.one("last_call", end.message.session_id)
    before = decode_call(found) if found else None
    calls = []
    for call in end.calls:
        again = before is not None and (before.turn, *before.of_a_kind) == (call.turn, *call.of_a_kind)
        before = replace(call, repeats=before.repeats + 1) if before is not None and again else call
        calls.append(before)
    return replace(end, calls=tuple(calls))


async def close(tx: Tx, end: StepEnd, *, hidden: bool) -> None:
    """Write the parts, the calls and the message of a finished step."""
    await _write(tx, end.parts, end.events)
    for call in end.calls:
        await put_call(tx, call)
    await save_message(tx, end.message, hidden=hidden)


class Retrying(Struct, frozen=True, kw_only=True):
    """A step that failed and is tried again; its output is closed, and kept for people."""

    end: StepEnd
    part: RetryPart
    next_at: int


async def retry_step(tx: Tx, lease: Lease, retry: Retrying) -> Snapshot:
    """Store the next try of a failed step; any process may make it when it is due."""
    row = await held(tx, lease)
    end, failure = retry.end, retry.part.error.data.message
    spent = end.spent or await request_tokens(tx, end.request_id)
    columns = retry.next_at, failure, encode(spent), end.tokens is None
    if not await tx.run("back_off", *columns, end.request_id):  # a repetition
        return await snapshot(tx, row)
    if end.said:
        await close(tx, end, hidden=True)
    info = charged(row.info, spent, end.message.cost)
    await put_part(tx, retry.part)
    tx.expect(retry.next_at)
    row = await save(tx, row, replace(row.control.progressed(), backoff=end.request_id), info)
    return await snapshot(tx, row)


async def hold_step(tx: Tx, lease: Lease, request_id: RequestId, *, until: int, why: str) -> Snapshot:
    """Postpone a step while its provider cools down, without counting a try."""
    row = await held(tx, lease)
    tx.expect(until)
    waiting = row.control.backoff or request_id
    if row.control.backoff is None:
        await _request(tx, row.control, request_id, "", 0, Tokens.zero())
        await tx.one("back_off", until, why, encode(Tokens.zero()), False, request_id)
    else:
        await tx.one("hold_back", until, why, waiting)
    row = await save(tx, row, replace(row.control, backoff=waiting))
    return await snapshot(tx, row)


class Move(Struct, frozen=True):
    call_id: CallId
    state: CallState


async def advance(tx: Tx, lease: Lease, moves: tuple[Move, ...]) -> Snapshot:
    """Move calls to a new state: start them, open them, or put them back. A settled call never changes.

    No call is started in a cancelled turn.
    """
    row = await held(tx, lease)
    cancelled = row.control.cancelled()
    for move in moves:
        call = await the_call(tx, move.call_id)
        if isinstance(call.state, Settled) or (cancelled and isinstance(move.state, Running)):
            continue
        after = moved(call, move.state, tx.now)
        await keep_answer(tx, call, after)
        await put_call(tx, after)
        asked(tx, after)
    return await snapshot(tx, row)
