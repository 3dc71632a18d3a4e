"""Admits a shell command of a person: a call that no model made, in a turn that asks no model."""

from msgspec.structs import replace

from asyncagents.domain.body import check_names
from asyncagents.domain.call.call import RUN_BY_PERSON, WRITTEN_BY_PERSON, Call
from asyncagents.domain.conversation.message import AssistantMessage, MessagePath, MessageTime, UserMessage
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.fact import Admit, AdmitResult, NewShell
from asyncagents.domain.id import MessageId
from asyncagents.domain.session_state import Control
from asyncagents.errors import SessionBusy
from asyncagents.store.row import (
    SessionRow,
    inbox,
    insert_message,
    put_call,
    put_part,
    require_session,
    save_session,
    with_updated_time,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.drop_undone import drop_undone
from asyncagents.store.verb.idempotency import check_key, save_key
from asyncagents.store.verb.inbox import check_newest, inherit_agent_and_model
from asyncagents.store.verb.trace import set_trace

SHELL = "bash"


async def admit_shell(tx: Tx, new: NewShell) -> AdmitResult:
    """Admit a shell command as a call that the session runs next. The same key again changes nothing.

    Raises `SessionBusy` unless the session rests: a turn could not tell this call from its own.
    """
    fact = new.prompt
    check_names(fact.message.id, fact.key)
    row = await require_session(tx, fact.session_id)
    known = await tx.one("input_by_key", fact.session_id, fact.key)
    if known is not None:
        await check_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
        return AdmitResult(MessageId(known[0]), new=False)
    if await _is_busy(tx, row.control):
        raise SessionBusy(fact.session_id)
    if row.info.revert is not None and not row.info.revert.is_unfinished:
        row = await drop_undone(tx, row)
    fact = inherit_agent_and_model(row.info, fact)
    if fact.named:
        await check_newest(tx, fact)
    if fact.trace != row.control.trace:
        await set_trace(tx, row.control.id, fact.trace)
    if fact.hash is not None:
        await save_key(tx, fact.session_id, "input", fact.key, hash=fact.hash)
    control = row.control.after_turn_start(await tx.rev())
    control = await _insert_promoted(tx, control, fact)
    control = replace(control, positions=control.positions + 1)
    step = _step(tx, row, new, fact.message)
    await insert_message(tx, step, position=control.positions, turn=control.turn)
    await put_call(tx, _call(tx, control, step, new.command))
    await save_session(tx, row, control.after_wake(), with_updated_time(row.info, tx.now))
    return AdmitResult(fact.message.id, new=True)


async def _is_busy(tx: Tx, control: Control) -> bool:
    """Whether anything runs, is unread, or is waited for."""
    if control.state != "idle" or control.in_turn or control.backoff is not None:
        return True
    unread = await inbox(tx, control.id)
    return unread.queued + unread.notices + unread.stranded > 0


async def _insert_promoted(tx: Tx, control: Control, fact: Admit) -> Control:
    """Insert the message as promoted input: it does not wait for a step."""
    rev = await tx.rev()
    control = replace(control, positions=control.positions + 1)
    place = control.positions, control.turn
    await insert_message(tx, fact.message, position=place[0], turn=place[1], named=fact.named)
    for part in fact.parts:
        await put_part(tx, part)
    columns = fact.message.id, control.id, fact.key, rev, fact.source, control.turn
    await tx.one("insert_promoted", *columns, rev)
    return control


def _step(tx: Tx, row: SessionRow, new: NewShell, asked_by: UserMessage) -> AssistantMessage:
    return AssistantMessage(
        id=new.message_id,
        session_id=row.control.id,
        parent_id=asked_by.id,
        time=MessageTime(created=tx.now),
        model_id=asked_by.model.model_id,
        provider_id=asked_by.model.provider_id,
        variant=asked_by.model.variant,
        mode=asked_by.agent,
        agent=asked_by.agent,
        path=MessagePath(cwd=row.info.directory, root=row.info.directory),
        cost=0,
        tokens=Tokens.zero(),
    )


def _call(tx: Tx, control: Control, step: AssistantMessage, command: str) -> Call:
    part_id = tx.ids.part()
    return Call(
        id=tx.ids.call(),
        session_id=control.id,
        message_id=step.id,
        part_id=part_id,
        call_id=part_id,
        tool=SHELL,
        input={"command": command},
        turn=control.turn,
        created=tx.now,
        agent=step.agent,
        granted=(WRITTEN_BY_PERSON, RUN_BY_PERSON),
        prepared=True,
        effect="once",
    )
