"""What hooks made of a call before it is planned: noted once, so that nobody is asked about anything else."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call import Requested
from asyncagents.domain.control import Lease, Snapshot
from asyncagents.domain.id import CallId
from asyncagents.store.row import held, put_call, snapshot, the_call
from asyncagents.store.tx import Tx


class Prepared(Struct, frozen=True):
    """A call that its hooks have seen, and the arguments that they left it."""

    call_id: CallId
    input: dict[str, Any]


async def prepare(tx: Tx, lease: Lease, prepared: tuple[Prepared, ...]) -> Snapshot:
    """Once for each call. A yes to other arguments is none to these."""
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
