"""Stores the request for a title before it is sent, and the title and its cost afterwards."""

from msgspec.structs import replace

from asyncagents.domain.conversation.session import TitleEnd, Tokens
from asyncagents.domain.id import RequestId, SessionId
from asyncagents.domain.shape import encode
from asyncagents.store.row import find_session, request_tokens, require_session, save_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.claim import add_usage


async def start_title(tx: Tx, session_id: SessionId, request_id: RequestId, estimate: Tokens) -> None:
    """Insert the request for a title before it is sent to a model."""
    control = (await require_session(tx, session_id)).control
    columns = request_id, control.id, "", control.turn, control.fence, 1
    await tx.one("insert_request", *columns, encode(estimate), tx.now)


async def end_title(tx: Tx, end: TitleEnd) -> None:
    """Charge the request, once, and set the title unless it was changed meanwhile.

    Does nothing if the session was deleted.
    """
    row = await find_session(tx, end.session_id)
    reported = encode(end.tokens) if end.tokens else None
    if row is None or not await tx.run("end_request", "done", reported, end.request_id):
        return
    info = add_usage(row.info, end.tokens or await request_tokens(tx, end.request_id), end.cost)
    if end.title and info.title == end.before:
        info = replace(info, title=end.title)
    await save_session(tx, row, row.control, info)
