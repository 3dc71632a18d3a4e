"""Stores the input that hooks left to a call before it is planned, so that an ask is about that input."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Requested
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.id import CallId
from asyncagents.store.row import held, put_call, snapshot, the_call
from asyncagents.store.tx import Tx


class Prepared(Struct, frozen=True):
    """A call whose hooks have run, and the input they left."""

    call_id: CallId
    input: dict[str, Any]


async def prepare(tx: Tx, lease: Lease, prepared: tuple[Prepared, ...]) -> Snapshot:
    """Store the input of each call, once. A changed input drops what was granted for the old one."""
    row = await held(tx, lease)
    for each in prepared:
        call = await the_call(tx, each.call_id)
        if not isinstance(call.state, Requested) or call.prepared:
            continue
        changed = replace(call, prepared=True)
        if each.input != call.input:
            changed = replace(changed, input=each.input, proposed=call.of_a_kind[1], granted=())
        await put_call(tx, changed)
    return await snapshot(tx, row)
