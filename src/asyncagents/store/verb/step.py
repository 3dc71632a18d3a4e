"""A step of the model: its start, its text as it streams, and its end with the calls it made."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call import Call, CallState, Running, Settled, moved
from asyncagents.domain.codec import decode_message, upcast
from asyncagents.domain.control import WANTED, Control, Lease, Snapshot
from asyncagents.domain.event import Event, SessionError
from asyncagents.domain.fact import Admit, Fact
from asyncagents.domain.failure import ContextOverflowError, MessageAbortedError, unknown
from asyncagents.domain.history import Entry
from asyncagents.domain.id import CallId, MessageId, PartId, RequestId
from asyncagents.domain.message import AssistantMessage, MessagePath, MessageTime, UserMessage
from asyncagents.domain.part import Part, RetryPart, StepStartPart, ToolPart
from asyncagents.domain.session import Session, Tokens
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
from asyncagents.store.verb.fact import apply
from asyncagents.store.verb.promote import Told, Unread, mailbox, promote
from asyncagents.store.verb.read import lineage, placed, shown_calls
from asyncagents.store.verb.remind import Aside, remind
from asyncagents.store.verb.subtask import Tasking, begin_tasks, go_on, subtasks
from asyncagents.store.verb.turn_end import answer_before, answer_earlier, end_turn
from asyncagents.store.verb.undone import clear_undone
from asyncagents.store.verb.wanted import Wanted, system_of, wanted


class NewStep(Struct, frozen=True, kw_only=True):
    """The ids are made by the run, which goes on to stream under them."""

    message_id: MessageId
    part_id: PartId
    request_id: RequestId
    since: int
    """The position from which the run has not read the history yet."""
    aside: Aside | None = None
    told: int = 0
    """What the run has read by then, with the system text and the tools, in tokens, more or less."""
    summary: NewSummary | None = None
    """How to ask for a summary instead, if there is need for one."""
    tasking: Tasking = Tasking()
    telling: Told = Told()
    kin: bool = False
    """Whether to say for whom the session works."""


class Started(Struct, frozen=True):
    message: AssistantMessage
    position: int
    turn: int
    number: int
    attempt: int
    tail: tuple[Entry, ...]
    """What the model reads from `since` on, before this step."""
    shown: frozenset[PartId]
    """The tool parts whose calls the model is told are pending."""
    wanted: Wanted | None = None
    """The form of the answer."""
    above: tuple[Session, ...] = ()
    """For whom it works, from the root of its tree down, if that was asked for."""
    system: str = ""
    """What the model is told beside its instructions."""


class _Try(Struct, frozen=True):
    """Which try of a step this is, and the message that the try before it left empty."""

    attempt: int = 1
    estimate: Tokens = Tokens.zero()
    message: AssistantMessage | None = None
    position: int = 0


class StepEnd(Struct, frozen=True, kw_only=True):
    request_id: RequestId
    message: AssistantMessage
    parts: tuple[Part, ...]
    events: tuple[Event, ...] = ()
    """What listeners have not heard of the parts."""
    calls: tuple[Call, ...] = ()
    tokens: Tokens | None = None
    """What the provider reported; without a report the estimate is charged, and marked so."""
    said: bool = True
    """Whether anything came of it; a request that failed without a word, and without a report, is free."""
    full: bool = False
    """The context is: the step came close to its end, or the provider refused it for its length."""
    facts: tuple[Fact, ...] = ()
    """What commits with it, unless the turn was cancelled."""
    over: Callable[[Snapshot], bool] | None = None
    """Pure: whether the turn ends here, as far as the rows say. None: others have a word before it does."""
    minds_todos: bool = False
    """It does not end here with todos left: somebody has a word in that."""
    goes_on: Admit | None = None
    """What is admitted instead, where the turn would end with this step; then `over` is there."""

    @property
    def spent(self) -> Tokens | None:
        """None: nobody knows."""
        free = self.message.error is not None and not isinstance(self.message.error, MessageAbortedError)
        return self.tokens or (Tokens.zero() if free and not self.said else None)


async def start_step(tx: Tx, lease: Lease, new: NewStep) -> Started | None:
    """Promote what is unread, show open calls as pending, open the step. None: there is no need any more."""
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
    """What prompts of this turn want besides an answer; few of them do."""
    formed = before.in_turn or any(b'"format":' in each.info for each in unread)
    told = before.in_turn or any(b'"system":' in each.info for each in unread)
    return await wanted(tx, control) if formed else None, await system_of(tx, control) if told else ""


async def end_backoff(tx: Tx, control: Control, *, reuse: bool) -> _Try:
    """The wait is over. A try that said nothing left a message for the next; without one, it is closed."""
    backoff = await find_backoff(tx, control)
    if backoff is None:
        return _Try()
    await tx.one("end_backoff", backoff.request_id)
    again = _Try(backoff.attempt + 1, backoff.estimate)
    row = await tx.one("message", backoff.message_id)
    if row is None or row[4]:  # none yet, or one that was closed with its try
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
    """A step answers the newest promoted message, or goes on with what the step before it answered."""
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
    """Before the provider tells: all that was told and is new; or what it told last, and all since."""
    return replace(Tokens.zero(), input=max(told + weight(tail, shown), _since_last_told(tail, shown)))


def _since_last_told(tail: tuple[Entry, ...], shown: frozenset[PartId]) -> int:
    """What the last step took that says so, the results of its calls, and all that follows it."""
    since = 0
    for entry in reversed(tail):
        step = entry.info if isinstance(entry.info, AssistantMessage) else None
        if step is not None and step.finish and not step.summary and taken(step.tokens):
            calls = (part for part in entry.parts if isinstance(part, ToolPart))
            return taken(step.tokens) + sum(output_weight(call, shown) for call in calls) + since
        since += weight((entry,), shown)
    return 0


async def write_parts(tx: Tx, lease: Lease, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    """Keep a step as it streams; the events are what listeners have not heard of it."""
    await check_lease(tx, lease)
    await _write(tx, parts, events)


async def _write(tx: Tx, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
    for part in parts:
        await put_part(tx, part, publish=False)
    for event in events:
        tx.emit(event)


async def finish_step(tx: Tx, lease: Lease, end: StepEnd) -> Snapshot:
    """Close the step and write down the calls it made, in one transaction: no tool starts before it."""
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
    """If nothing is left to do the turn ends with its step: one transaction less for most turns there are."""
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
    """Each call knows how many of its kind came just before it in this turn."""
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
    """Write down what a step said and asked for."""
    await _write(tx, end.parts, end.events)
    for call in end.calls:
        await put_call(tx, call)
    await save_message(tx, end.message, hidden=hidden)


class Retrying(Struct, frozen=True, kw_only=True):
    """A step that failed and is tried again; what it had said is closed, and kept for people."""

    end: StepEnd
    part: RetryPart
    next_at: int


async def retry_step(tx: Tx, lease: Lease, retry: Retrying) -> Snapshot:
    """From here on the request waits as a row; whatever process is there when it is due tries again."""
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
    """The provider cools down: wait as a row, without counting a try."""
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
    """Move calls on: start them, open them, or put them back. A settled call never changes.

    Nothing is started in a turn that was cancelled.
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
