"""The inbox: puts input in it, with its message and parts, and wakes the session."""

from msgspec.structs import replace

from asyncagents.domain.body import check_names
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import SubtaskPart, TextPart
from asyncagents.domain.conversation.session import Session, SessionModel, is_default_title, title_from
from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.domain.id import MessageId, PartId, sort_id
from asyncagents.errors import Conflict, InvalidInput
from asyncagents.store.row import (
    SessionRow,
    insert_message,
    model_ref,
    put_part,
    require_session,
    save_session,
    with_updated_time,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.drop_undone import drop_undone
from asyncagents.store.verb.idempotency import check_key, save_key
from asyncagents.store.verb.trace import start_trace


async def put_in_inbox(tx: Tx, fact: Admit) -> tuple[AdmitResult, SessionRow]:
    """Put input in the inbox and wake the session, once per key; returns the session as it is now."""
    check_names(fact.message.id, fact.key, *(part.id for part in fact.parts))
    row = await require_session(tx, fact.session_id)
    known = await tx.one("input_by_key", fact.session_id, fact.key)
    if known is not None:
        await check_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
        return AdmitResult(MessageId(known[0]), new=False), row
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
    return AdmitResult(fact.message.id, new=True), row


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
