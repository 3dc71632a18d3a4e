"""Reads and writes rows for the verbs: decode, change as values, write back, publish what changed."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Call, Open, Settled, render
from asyncagents.domain.call.pending_tool import pending_status
from asyncagents.domain.conversation.codec import (
    DECODE_ERRORS,
    SHAPE_VERSION,
    UnknownPart,
    decode_message,
    decode_part,
    decode_session,
    decode_status,
    overlay,
    unreadable_error,
    upcast,
)
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import Message, ModelRef
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Session, SessionModel, Tokens
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.conversation.system_message import SystemMessage
from asyncagents.domain.event import (
    MessageUpdated,
    PartUpdated,
    SessionIdle,
    SessionStatus,
    SessionUpdated,
)
from asyncagents.domain.id import CallId, MessageId, RequestId, SessionId, sort_id
from asyncagents.domain.session_state import Backoff, Claim, Control, Snapshot, session_status
from asyncagents.domain.shape import encode
from asyncagents.errors import ClaimLost, Conflict, NotFound
from asyncagents.store.tx import Row, Tx

IDLE = encode(Idle()).decode()
BUSY = encode(Busy()).decode()
SEARCHED_TITLE_CHARS = 500
"""Characters of a title that a search covers; an index holds them."""
_call_decoder = msgspec.json.Decoder(Call)


class SessionRow(Struct, frozen=True):
    control: Control
    info: Session
    status: str
    raw: bytes
    version: int


async def find_session(tx: Tx, session_id: SessionId) -> SessionRow | None:
    row = await tx.one("session", session_id)
    if row is None:
        return None
    status_text, raw, version = row[22:25]
    return SessionRow(Control(*row[:22]), decode_session(upcast(version, raw)), status_text, raw, version)


async def require_session(tx: Tx, session_id: SessionId) -> SessionRow:
    row = await find_session(tx, session_id)
    if row is None:
        raise NotFound("session", session_id)
    return row


async def claimed_session(tx: Tx, claim: Claim) -> SessionRow:
    """Read the session if the claim is still valid; every write of a run begins here. Raises `ClaimLost`."""
    row = await find_session(tx, claim.session_id)
    if row is None or row.control.fence != claim.fence or row.control.state != "running":
        raise ClaimLost(claim.session_id)
    return row


async def check_claim(tx: Tx, claim: Claim) -> None:
    """Raise `ClaimLost` as `claimed_session` does, for a write that needs nothing of the session."""
    if await tx.one("lease", claim.session_id) != (claim.fence, "running"):
        raise ClaimLost(claim.session_id)


async def save_session(
    tx: Tx, row: SessionRow, control: Control, info: Session | None = None, *, at_rest: bool = False
) -> SessionRow:
    """Write a session back, publish what changed, wake it if signalled. `at_rest`: it has no open calls."""
    rev = await tx.rev()
    now_status = IDLE if at_rest and control.state == "idle" else await _status(tx, control)
    raw, version = row.raw, row.version
    if info is not None and info is not row.info:
        raw, version = merge_body(row.raw, row.version, info)
        tx.emit(SessionUpdated(session_id=control.id, info=info))
    await tx.one(
        "save_session",
        control.state,
        control.wake_seq,
        control.fence,
        control.owner,
        control.turn,
        control.turn_rev,
        control.in_turn,
        control.cancel_rev,
        control.blocked_turn,
        control.claims,
        control.positions,
        control.backoff,
        control.steps,
        control.compacting,
        control.summary,
        control.tail,
        now_status,
        raw,
        version,
        rev,
        control.id,
    )
    await _update_list_columns(tx, row.info, info)
    if now_status != row.status:
        publish_status(tx, control.id, now_status)
    if control.state == "ready" or control.wake_seq > row.control.wake_seq:
        tx.wake(control.id)
    return SessionRow(control, info or row.info, now_status, raw, version)


def list_columns(info: Session) -> tuple[int, str, int | None]:
    """Columns that session lists sort and search by. Zero bytes are replaced: a search would end at one."""
    sought = info.title[:SEARCHED_TITLE_CHARS].casefold().replace("\0", "\ufffd")
    return info.time.updated, sought, info.time.archived


async def _update_list_columns(tx: Tx, before: Session, info: Session | None) -> None:
    """Write the indexed columns only if they changed."""
    if info is not None and (info.time != before.time or info.title != before.title):
        await tx.one("list_session", *list_columns(info), info.id)


def publish_status(tx: Tx, session_id: SessionId, text: str) -> None:
    tx.emit(SessionStatus(session_id=session_id, status=decode_status(text.encode())))
    if text == IDLE:
        tx.emit(SessionIdle(session_id=session_id))


async def _status(tx: Tx, control: Control) -> str:
    if control.backoff is not None:
        return encode(session_status(control, (), await find_backoff(tx, control))).decode()
    if control.state != "idle":
        return BUSY
    return encode(session_status(control, await unsettled_calls(tx, control.id))).decode()


async def unsettled_calls(tx: Tx, session_id: SessionId) -> tuple[Call, ...]:
    rows = await tx.all("unsettled_calls", session_id)
    return tuple(decode_call(row) for row in rows)


async def find_backoff(tx: Tx, control: Control) -> Backoff | None:
    """Find the request of the session that waits for its next try."""
    row = await tx.one("backoff", control.backoff) if control.backoff is not None else None
    if row is None:
        return None
    estimate = msgspec.json.decode(row[5], type=Tokens) if row[5] else Tokens.zero()
    request_id, message_id, attempt, next_at, failure, _ = row
    return Backoff(request_id, message_id, attempt, next_at, failure, estimate)


async def request_tokens(tx: Tx, request_id: RequestId) -> Tokens:
    """Read the tokens of a request: reported, or else estimated."""
    row = await tx.one("request_tokens", request_id)
    assert row is not None
    return msgspec.json.decode(row[0], type=Tokens)


async def snapshot(tx: Tx, row: SessionRow, *, last: Message | None = None) -> Snapshot:
    """Read all that `decide` needs. `last`: the turn's last message, if the caller has just written it."""
    control, model = row.control, row.info.model
    unread = await inbox(tx, control.id)
    return Snapshot(
        control=control,
        info=row.info,
        calls=await unsettled_calls(tx, control.id),
        queued=unread.queued,
        prompts=unread.prompts,
        stranded=unread.stranded,
        notices=unread.notices,
        newest=unread.newest,
        last=last or await last_message(tx, control),
        model=model_ref(model) if model else None,
        backoff=await find_backoff(tx, control),
        now=tx.now,
    )


def model_ref(model: SessionModel) -> ModelRef:
    return ModelRef(provider_id=model.provider_id, model_id=model.id, variant=model.variant)


async def last_message(tx: Tx, control: Control) -> Message | None:
    """Read the newest message of this turn that the model would see."""
    if not control.in_turn:
        return None
    row = await tx.one("last_message", control.id)
    return decode_message(upcast(row[1], row[0])) if row is not None and row[2] == control.turn else None


class Inbox(Struct, frozen=True):
    queued: int
    """Inputs that wait to be promoted."""
    stranded: int
    """Inputs that an abort held back and whose callers have no answer yet."""
    notices: int
    """Notices that are due."""
    newest: MessageId | None
    """The newest message that waits."""
    prompts: int
    """Queued inputs without those that the runtime itself adds to a turn."""


async def inbox(tx: Tx, session_id: SessionId) -> Inbox:
    row = await tx.one("unread", session_id)
    assert row is not None
    return Inbox(*row)


def decode_call(row: Row) -> Call:
    try:
        return _call_decoder.decode(row[0])
    except DECODE_ERRORS as error:
        raise unreadable_error("call", row[0], error) from error


async def require_call(tx: Tx, call_id: CallId) -> Call:
    row = await tx.one("call", call_id)
    if row is None:
        raise NotFound("call", call_id)
    return decode_call(row)


async def put_call(tx: Tx, call: Call, *, publish: bool = True) -> None:
    """Write a call and the tool part that shows it."""
    state, due = call.state, None
    if isinstance(state, Open):
        due = state.next_due
        if due is not None:
            tx.schedule(due)
    elif isinstance(state, Settled) and call.later is not None:
        due = state.at
    columns = (
        call.id,
        call.session_id,
        call.part_id,
        call.ask_id,
        call.tool,
        str(state.__struct_config__.tag),
        due,
        call.shown_pending,
        pending_status(call),
    )
    rev = await tx.rev()
    if not await tx.run("put_call", *columns, encode_body(call), SHAPE_VERSION, rev):
        old = await tx.one("call", call.id)
        assert old is not None
        await tx.one("put_call", *columns, *merge_body(old[0], old[1], call), rev)
    if call.later is not None and call.later.server_task is not None:
        await schedule_poll(tx, call)
    await put_part(tx, render(call), publish=publish)


async def schedule_poll(tx: Tx, call: Call) -> None:
    """Schedule when the server of a call's task is asked, or told something."""
    delay = call.next_poll_ms
    at = None if delay is None else tx.now + delay
    if at is not None:
        tx.schedule(at)
    await tx.run("set_poll", at, call.id)


async def put_part(tx: Tx, part: Part | UnknownPart, *, publish: bool = True) -> None:
    columns = part.id, part.message_id, part.session_id
    rev = await tx.rev()
    if not await tx.run("put_part", *columns, encode_body(part), SHAPE_VERSION, rev):
        old = await tx.one("part", part.id)
        if old is None or old[2] != part.message_id:
            raise Conflict(f"part id {part.id!r} is taken; leave it out or choose another")
        await tx.one("put_part", *columns, *merge_body(old[0], old[1], part), rev)
    if publish and part.session_id is not None:
        tx.emit(PartUpdated(session_id=part.session_id, part=part, time=tx.now))


async def insert_message(
    tx: Tx,
    message: Message,
    *,
    position: int | None = None,
    turn: int | None = None,
    named: bool = False,
    publish: bool = True,
) -> None:
    """Insert a new message. `named`: a client made its id, perhaps without its era. Raises `Conflict`."""
    raw = encode_body(message)
    columns = message.id, message.session_id, position, turn, False
    sorts_by = sort_id(message.id, message.time.created) if named else message.id
    stored_sort_id = None if sorts_by == message.id else sorts_by
    if not await tx.run("insert_message", *columns, raw, SHAPE_VERSION, await tx.rev(), stored_sort_id):
        raise Conflict(f"message id {message.id!r} is taken; leave it out or choose another")
    if publish:
        tx.emit(MessageUpdated(session_id=message.session_id, info=message))


async def sort_id_of(tx: Tx, message_id: str) -> str:
    """Look up the sort id of a message; a deleted one sorts by its id, in the era nearest to now."""
    row = await tx.one("sort_id_of", message_id)
    return str(row[0]) if row else sort_id(message_id, tx.now)


async def append_system_message(tx: Tx, control: Control, system_message: SystemMessage) -> Control:
    """Append a message of the runtime at the next position that the model reads."""
    control = replace(control, positions=control.positions + 1)
    await insert_message(tx, system_message.message, position=control.positions, turn=control.turn)
    await put_part(tx, system_message.part)
    return control


async def save_message(tx: Tx, message: Message, *, hidden: bool = False) -> None:
    rev = await tx.rev()
    if not await tx.run("save_message", hidden, encode_body(message), SHAPE_VERSION, rev, message.id):
        old = await tx.one("message", message.id)
        if old is None:
            raise NotFound("message", message.id)
        await tx.one("save_message", hidden, *merge_body(old[5], old[6], message), rev, message.id)
    tx.emit(MessageUpdated(session_id=message.session_id, info=message))


async def require_message(tx: Tx, message_id: MessageId) -> MessageWithParts:
    row = await tx.one("message", message_id)
    if row is None:
        raise NotFound("message", message_id)
    parts = await tx.all("message_parts", message_id)
    return MessageWithParts(
        info=decode_message(upcast(row[6], row[5])), parts=tuple(read_part(p) for p in parts)
    )


def read_part(row: Row) -> Part | UnknownPart:
    return decode_part(upcast(row[1], row[0]))


def with_updated_time(info: Session, now: int) -> Session:
    return replace(info, time=replace(info.time, updated=now))


def merge_body(old: bytes, version: int, new: Struct | UnknownPart) -> tuple[bytes, int]:
    """Encode a new body; a row written by a newer program keeps its version and the fields we do not know."""
    raw = encode_body(new)
    if version <= SHAPE_VERSION:
        return raw, SHAPE_VERSION
    return (overlay(old, new) if isinstance(new, Struct) else raw), version
