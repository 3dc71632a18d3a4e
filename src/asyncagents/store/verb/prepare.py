"""Stores the input that hooks left to a call before it is planned, so that an ask is about that input."""

from msgspec.structs import replace

from asyncagents.domain.call.call import Requested
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.step import PreparedInput
from asyncagents.store.row import claimed_session, put_call, require_call, snapshot
from asyncagents.store.tx import Tx


async def prepare_calls(tx: Tx, claim: Claim, prepared: tuple[PreparedInput, ...]) -> Snapshot:
    """Store the input that hooks left to each call, once. A changed input drops earlier grants."""
    row = await claimed_session(tx, claim)
    for each in prepared:
        call = await require_call(tx, each.call_id)
        if not isinstance(call.state, Requested) or call.prepared:
            continue
        changed = replace(call, prepared=True)
        if each.input != call.input:
            changed = replace(changed, input=each.input, proposed=call.repeat_key[1], granted=())
        await put_call(tx, changed)
    return await snapshot(tx, row)
