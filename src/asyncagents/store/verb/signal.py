"""Admits input and settles calls: each is one transaction that writes a row and wakes the session."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from asyncagents.domain.body import check_names, encode_body
from asyncagents.domain.call.call import (
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
from asyncagents.domain.call.reply import utc_time
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import FilePart, SubtaskPart, TextPart, ToolCompleted
from asyncagents.domain.conversation.session import Session, SessionModel, is_default_title, title_from
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.fact import Admit, AdmitResult, Settle
from asyncagents.domain.id import MessageId, PartId, sort_id
from asyncagents.domain.shape import encode
from asyncagents.errors import AlreadySettled, Conflict, InvalidInput
from asyncagents.store.row import (
    SessionRow,
    insert_message,
    model_ref,
    put_call,
    put_part,
    require_call,
    require_session,
    save_session,
    unsettled_calls,
    with_updated_time,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_reply
from asyncagents.store.verb.delivery import enqueue_webhook
from asyncagents.store.verb.drop_undone import drop_undone
from asyncagents.store.verb.idempotency import check_key, save_key
from asyncagents.store.verb.trace import start_trace

_results: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


async def admit(tx: Tx, fact: Admit) -> AdmitResult:
    """Put input in the inbox and wake the session. The same key again changes nothing."""
    check_names(fact.message.id, fact.key, *(part.id for part in fact.parts))
    row = await require_session(tx, fact.session_id)
    known = await tx.one("input_by_key", fact.session_id, fact.key)
    if known is not None:
        await check_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
        return AdmitResult(MessageId(known[0]), new=False)
    if row.info.revert is not None and not row.info.revert.is_unfinished:
        row = await drop_undone(tx, row)
    fact = inherit_agent_and_model(row.info, fact)
    if fact.named:
        await check_newest(tx, fact)
    await insert_input(tx, fact)
    if fact.hash is not None:
        await save_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
    await start_trace(tx, row.control, fact)
    control = row.control.after_wake() if fact.wakes else row.control
    info = _with_tools(with_updated_time(row.info, tx.now), fact.message)
    if fact.source != "compaction" or info.model is None:  # a summary's model does not become the session's
        info = with_agent_and_model(info, fact.message)
    row = await save_session(tx, row, control, _with_title(info, fact))
    if fact.source == "person" and fact.wakes and control.in_turn:
        await _end_waits(tx, row)
    return AdmitResult(fact.message.id, new=True)


async def check_newest(tx: Tx, fact: Admit) -> None:
    """Raise if a client's message id is taken or older than the last: clients read in the order of ids."""
    message_id = fact.message.id
    if await tx.one("message", message_id) is not None:
        raise Conflict(f"message id {message_id!r} is taken; leave it out or choose another")
    if await tx.one("input", message_id) is not None:
        raise Conflict(f"message id {message_id!r} is of a deleted message; leave it out or choose another")
    newest = await tx.one("last_sort_id", fact.session_id)
    if newest is not None and newest[0] > sort_id(message_id, fact.message.time.created):
        raise InvalidInput(f"message id {message_id!r} is older than the last message: make a new one")


async def insert_input(tx: Tx, fact: Admit) -> None:
    """Insert the message, its parts and the input row."""
    rev = await tx.rev()
    await insert_message(tx, fact.message, named=fact.named)
    seen: set[PartId] = set()
    for part in fact.parts:
        if part.id in seen:
            raise InvalidInput(f"part id {part.id!r} occurs twice in one message")
        seen.add(part.id)
        await put_part(tx, part)
    state = "queued" if fact.wakes else "held"
    await tx.one("insert_input", fact.message.id, fact.session_id, fact.key, rev, state, fact.source, rev)


async def _end_waits(tx: Tx, row: SessionRow) -> None:
    """Settle the calls that only wait, because a person sent a prompt."""
    for call in await unsettled_calls(tx, row.control.id):
        if isinstance(call.state, Open) and call.state.kind == "wait":
            known = f"{WAIT_ENDED}\n\n{call.state.note}" if call.state.watch else WAIT_ENDED
            result = Completed(known, call.state.title, call.state.metadata)
            await settle_open(tx, await require_session(tx, row.control.id), call, result)


def inherit_agent_and_model(info: Session, fact: Admit) -> Admit:
    """Use the session's agent and model unless the input chose others."""
    message = fact.message
    if fact.same_agent and info.agent is not None:
        message = replace(message, agent=info.agent)
    if fact.same_model and info.model is not None:
        message = replace(message, model=model_ref(info.model))
    return replace(fact, message=message)


def with_agent_and_model(info: Session, message: UserMessage) -> Session:
    """Set the agent and model of a message as those of the session."""
    model = SessionModel(
        id=message.model.model_id, provider_id=message.model.provider_id, variant=message.model.variant
    )
    return replace(info, agent=message.agent, model=model)


def _with_tools(info: Session, message: UserMessage) -> Session:
    """Replace the session's tool map with that of a prompt, if it has one."""
    return replace(info, tools=message.tools) if message.tools else info


def _with_title(info: Session, fact: Admit) -> Session:
    """Title a root session that has the default title with a person's first prompt."""
    if info.parent_id is not None or fact.source != "person" or not is_default_title(info.title):
        return info
    texts = [part.text for part in fact.parts if isinstance(part, TextPart) and not part.synthetic]
    texts = texts or [part.description for part in fact.parts if isinstance(part, SubtaskPart)]
    title = title_from("\n".join(texts))
    return replace(info, title=title) if title else info


async def settle(tx: Tx, fact: Settle, *, unless_checked: bool = False) -> Call:
    """Settle a call, once. The same result again returns the call; another raises `AlreadySettled`.

    With `unless_checked` a call whose tool checks its result first is left open.
    """
    call = await require_call(tx, fact.call_id)
    if isinstance(call.state, Settled):
        if not _is_same_result(call.state.result, fact.result):
            raise AlreadySettled(call.id, result_excerpt(call.state.result))
        return call
    _check_open(call)
    if call.open is not None:
        check_deadline(call.open, tx.now)
    if unless_checked and call.later is not None and call.later.checked:
        return call
    publish_reply(tx, call, "reject")  # its question needs no answer any more
    return await settle_open(tx, await require_session(tx, call.session_id), call, fact.result)


def _is_same_result(stored: Result, given: Result) -> bool:
    """Compare results; a stored one has been through JSON."""
    return stored == given or stored == _results.decode(encode_body(given))


def result_excerpt(result: Result) -> str:
    """First 200 characters of the stored result, for the conflict message."""
    return encode(result).decode()[:200]


def _check_open(call: Call) -> None:
    """Raise `Conflict` unless the call accepts a result from outside; a pending call always does."""
    if call.later is not None:
        return
    if isinstance(call.state, Requested):
        raise Conflict(f"call {call.id!r} has not started; it takes no result yet")
    if call.only_asks:
        raise Conflict(f"call {call.id!r} asks a person; answer {call.ask_id!r} instead")
    if call.open and (call.open.kind == "task" or call.open.watch):
        raise Conflict(f"call {call.id!r} waits for a task; cancel the task instead")


def check_deadline(state: Open, now: int) -> None:
    """Refuse a decision after its deadline even if the sweep has not expired it yet."""
    if state.has_lapsed(now):
        raise Conflict(
            f"the time to decide was over at {utc_time(state.due or 0)}; it counts as not approved"
        )


async def settle_open(tx: Tx, row: SessionRow, call: Call, result: Result, *, expired: bool = False) -> Call:
    """Settle a call, wake its session, and enqueue its webhook; a blocking failure rejects its siblings."""
    done = call.with_state(Settled(result, tx.now, expired))
    await put_call(tx, done)
    await enqueue_webhook(tx, done)
    control = row.control.after_wake().after_progress()
    if isinstance(result, Failed) and result.blocks and call.turn == control.turn:
        control = replace(control, blocked_turn=control.turn)
        await _reject_siblings(tx, row.info, done)
    row = await save_session(tx, row, control)
    if done.shown_pending:
        await admit(tx, _late_result(tx, row.info, done, wakes=True))
    return done


async def _reject_siblings(tx: Tx, info: Session, rejected: Call) -> None:
    """Dismiss the calls of the session that have not started; running ones may finish."""
    for call in await unsettled_calls(tx, rejected.session_id):
        if isinstance(call.state, Requested) or call.only_asks:
            await dismiss(tx, info, call, REJECTED_TOO)


async def dismiss(tx: Tx, info: Session, call: Call, why: str) -> None:
    """Settle a call as failed without a wake; the model reads the result with the next input."""
    publish_reply(tx, call, "reject")
    over = call.with_state(Settled(Failed(why), tx.now))
    await put_call(tx, over)
    await enqueue_webhook(tx, over)
    if over.shown_pending:
        await insert_input(tx, _late_result(tx, info, over, wakes=False))


def _late_result(tx: Tx, info: Session, call: Call, *, wakes: bool) -> Admit:
    """Build the input that brings the result of a call that was shown to the model as pending."""
    assert info.agent is not None and info.model is not None
    to = MessageTarget(info.id, info.agent, model_ref(info.model))
    said = build_system_message(to, result_text(call), ids=tx.ids, now=tx.now)
    key = f"result:{call.id}"
    parts: tuple[TextPart | FilePart, ...] = (said.part, *_late_files(tx, call, said.message.id))
    return Admit(message=said.message, parts=parts, key=key, source="system", wakes=wakes)


def _late_files(tx: Tx, call: Call, message_id: MessageId) -> Iterator[FilePart]:
    """Copy the attachments of a late result into its message."""
    done = render(call).state
    for file in (done.attachments or ()) if isinstance(done, ToolCompleted) else ():
        yield replace(file, id=tx.ids.part(), message_id=message_id)
