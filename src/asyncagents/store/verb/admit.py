"""Admits input: puts it in the inbox, and ends the waits that a person's prompt makes pointless."""

from asyncagents.domain.call.call import WAIT_ENDED, Completed, Open
from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.store.row import SessionRow, require_session, unsettled_calls
from asyncagents.store.tx import Tx
from asyncagents.store.verb.inbox import put_in_inbox
from asyncagents.store.verb.settle import settle_open


async def admit_input(tx: Tx, fact: Admit) -> AdmitResult:
    """Put input in the inbox and wake the session. The same key again changes nothing."""
    admitted, row = await put_in_inbox(tx, fact)
    if admitted.new and fact.source == "person" and fact.wakes and row.control.in_turn:
        await _end_waits(tx, row)
    return admitted


async def _end_waits(tx: Tx, row: SessionRow) -> None:
    """Settle the calls that only wait, because a person sent a prompt."""
    for call in await unsettled_calls(tx, row.control.id):
        if isinstance(call.state, Open) and call.state.kind == "wait":
            known = f"{WAIT_ENDED}\n\n{call.state.note}" if call.state.watch else WAIT_ENDED
            result = Completed(known, call.state.title, call.state.metadata)
            await settle_open(tx, await require_session(tx, row.control.id), call, result)
