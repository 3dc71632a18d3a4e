"""Signal: an outside event becomes a row under a key, and the session is woken, in one transaction."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call import (
    REJECTED_TOO,
    WAIT_ENDED,
    Call,
    Completed,
    Failed,
    Open,
    Requested,
    Result,
    Settled,
    render,
    result_text,
)
from asyncagents.domain.decision import moment
from asyncagents.domain.fact import Admit, Admitted, Settle
from asyncagents.domain.id import MessageId, PartId, sort_id
from asyncagents.domain.message import UserMessage
from asyncagents.domain.part import FilePart, SubtaskPart, TextPart, ToolCompleted
from asyncagents.domain.remark import Addressee, remark
from asyncagents.domain.session import Session, SessionModel, is_default_title, title_from
from asyncagents.domain.shape import encode
from asyncagents.errors import AlreadySettled, Conflict, InvalidInput
from asyncagents.store.body import body, check_names
from asyncagents.store.row import (
    SessionRow,
    insert_message,
    model_ref,
    put_call,
    put_part,
    save,
    the_call,
    the_session,
    touched,
    unsettled,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import replied
from asyncagents.store.verb.delivery import owe
from asyncagents.store.verb.idempotency import check_same, keep_key
from asyncagents.store.verb.trace import follow
from asyncagents.store.verb.undone import clear_undone

_results: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


async def admit(tx: Tx, fact: Admit) -> Admitted:
    """Put input in the inbox, once per key."""
    check_names(fact.message.id, fact.key, *(part.id for part in fact.parts))
    row = await the_session(tx, fact.session_id)
    known = await tx.one("input_by_key", fact.session_id, fact.key)
    if known is not None:
        await check_same(tx, fact.session_id, "input", fact.key, hash=fact.hash)
        return Admitted(MessageId(known[0]), new=False)
    if row.info.revert is not None and not row.info.revert.unfinished:
        row = await clear_undone(tx, row)
    fact = resolved(row.info, fact)
    if fact.named:
        await check_newest(tx, fact)
    await keep(tx, fact)
    if fact.hash is not None:
        await keep_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
    await follow(tx, row.control, fact)
    control = row.control.woken() if fact.wakes else row.control
    info = _with_tools(touched(row.info, tx.now), fact.message)
    if fact.source != "compaction" or info.model is None:  # who writes a summary does not answer from then on
        info = addressed(info, fact.message)
    row = await save(tx, row, control, _titled(info, fact))
    if fact.source == "person" and fact.wakes and control.in_turn:
        await _end_waits(tx, row)
    return Admitted(fact.message.id, new=True)


async def check_newest(tx: Tx, fact: Admit) -> None:
    """People read messages in the order of their ids."""
    message_id = fact.message.id
    if await tx.one("message", message_id) is not None:
        raise Conflict(f"message id {message_id!r} is taken; leave it out or choose another")
    if await tx.one("input", message_id) is not None:
        raise Conflict(f"message id {message_id!r} was of one that is gone; leave it out or choose another")
    newest = await tx.one("last_sort_id", fact.session_id)
    if newest is not None and newest[0] > sort_id(message_id, fact.message.time.created):
        raise InvalidInput(f"message id {message_id!r} is older than what was said last: make one now")


async def keep(tx: Tx, fact: Admit) -> None:
    """What it says, where the session finds it."""
    rev = await tx.rev()
    await insert_message(tx, fact.message, named=fact.named)
    seen: set[PartId] = set()
    for part in fact.parts:
        if part.id in seen:
            raise InvalidInput(f"part id {part.id!r} stands twice in one message")
        seen.add(part.id)
        await put_part(tx, part)
    state = "queued" if fact.wakes else "held"
    await tx.one("insert_input", fact.message.id, fact.session_id, fact.key, rev, state, fact.source, rev)


async def _end_waits(tx: Tx, row: SessionRow) -> None:
    """A person who speaks ends what only waits."""
    for call in await unsettled(tx, row.control.id):
        if isinstance(call.state, Open) and call.state.kind == "wait":
            known = f"{WAIT_ENDED}\n\n{call.state.note}" if call.state.watch else WAIT_ENDED
            result = Completed(known, call.state.title, call.state.metadata)
            await settle_open(tx, await the_session(tx, row.control.id), call, result)


def resolved(info: Session, fact: Admit) -> Admit:
    """Who answered before goes on, unless somebody else was chosen."""
    message = fact.message
    if fact.same_agent and info.agent is not None:
        message = replace(message, agent=info.agent)
    if fact.same_model and info.model is not None:
        message = replace(message, model=model_ref(info.model))
    return replace(fact, message=message)


def addressed(info: Session, message: UserMessage) -> Session:
    """A session answers with the agent and model it was last addressed with."""
    model = SessionModel(
        id=message.model.model_id, provider_id=message.model.provider_id, variant=message.model.variant
    )
    return replace(info, agent=message.agent, model=model)


def _with_tools(info: Session, message: UserMessage) -> Session:
    """Keep the map of a prompt for the session from here on, instead of an earlier one."""
    return replace(info, tools=message.tools) if message.tools else info


def _titled(info: Session, fact: Admit) -> Session:
    """What a person asks first names a root session that nobody named."""
    if info.parent_id is not None or fact.source != "person" or not is_default_title(info.title):
        return info
    texts = [part.text for part in fact.parts if isinstance(part, TextPart) and not part.synthetic]
    texts = texts or [part.description for part in fact.parts if isinstance(part, SubtaskPart)]
    title = title_from("\n".join(texts))
    return replace(info, title=title) if title else info


async def settle(tx: Tx, fact: Settle, *, unless_checked: bool = False) -> Call:
    """Give a call its result, once. The same again gets the same answer, another one is a conflict.

    With `unless_checked` a call whose tool wants to see its result first is left open.
    """
    call = await the_call(tx, fact.call_id)
    if isinstance(call.state, Settled):
        if not _same(call.state.result, fact.result):
            raise AlreadySettled(call.id, brief(call.state.result))
        return call
    _check_open(call)
    if call.open is not None:
        check_time(call.open, tx.now)
    if unless_checked and call.later is not None and call.later.checked:
        return call
    replied(tx, call, "reject")  # a question that goes with it need not be answered any more
    return await settle_open(tx, await the_session(tx, call.session_id), call, fact.result)


def _same(stored: Result, given: Result) -> bool:
    """What was stored has been through JSON."""
    return stored == given or stored == _results.decode(body(given))


def brief(result: Result) -> str:
    """For whoever comes second."""
    return encode(result).decode()[:200]


def _check_open(call: Call) -> None:
    """Work that began elsewhere may end, whatever has become of the call here."""
    if call.later is not None:
        return
    if isinstance(call.state, Requested):
        raise Conflict(f"call {call.id!r} has not started; it takes no result yet")
    if call.only_asks:
        raise Conflict(f"call {call.id!r} asks a person; answer {call.ask_id!r} instead")
    if call.open and (call.open.kind == "task" or call.open.watch):
        raise Conflict(f"call {call.id!r} waits for a task; cancel the task instead")


def check_time(state: Open, now: int) -> None:
    """Nobody has looked yet who would find it overdue: that lets no decision count that comes too late."""
    if state.lapsed(now):
        raise Conflict(f"the time to decide was over at {moment(state.due or 0)}; it counts as not approved")


async def settle_open(tx: Tx, row: SessionRow, call: Call, result: Result, *, expired: bool = False) -> Call:
    """Write the result of a call that is not settled, and all that follows from it."""
    done = call.to(Settled(result, tx.now, expired))
    await put_call(tx, done)
    await owe(tx, done)
    control = row.control.woken().progressed()
    if isinstance(result, Failed) and result.blocks and call.turn == control.turn:
        control = replace(control, blocked_turn=control.turn)
        await _reject_siblings(tx, row.info, done)
    row = await save(tx, row, control)
    if done.shown_pending:
        await admit(tx, _late_result(tx, row.info, done, wakes=True))
    return done


async def _reject_siblings(tx: Tx, info: Session, rejected: Call) -> None:
    """A no settles what has not started; what runs may finish."""
    for call in await unsettled(tx, rejected.session_id):
        if isinstance(call.state, Requested) or call.only_asks:
            await dismiss(tx, info, call, REJECTED_TOO)


async def dismiss(tx: Tx, info: Session, call: Call, why: str) -> None:
    """Settle a call that nobody waits for. It wakes nobody; the model hears of it with the next input."""
    replied(tx, call, "reject")
    over = call.to(Settled(Failed(why), tx.now))
    await put_call(tx, over)
    await owe(tx, over)
    if over.shown_pending:
        await keep(tx, _late_result(tx, info, over, wakes=False))


def _late_result(tx: Tx, info: Session, call: Call, *, wakes: bool) -> Admit:
    """The model was told that this call is pending: the result reaches it as a message of its own."""
    assert info.agent is not None and info.model is not None
    to = Addressee(info.id, info.agent, model_ref(info.model))
    said = remark(to, result_text(call), ids=tx.ids, now=tx.now)
    key = f"result:{call.id}"
    parts: tuple[TextPart | FilePart, ...] = (said.part, *_late_files(tx, call, said.message.id))
    return Admit(message=said.message, parts=parts, key=key, source="system", wakes=wakes)


def _late_files(tx: Tx, call: Call, message_id: MessageId) -> Iterator[FilePart]:
    """The files of a late result stand beside its words, as those of a person do."""
    done = render(call).state
    for file in (done.attachments or ()) if isinstance(done, ToolCompleted) else ():
        yield replace(file, id=tx.ids.part(), message_id=message_id)
