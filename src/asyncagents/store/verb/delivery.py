"""Outgoing webhooks: owed with the settling of a call, in the same transaction."""

from asyncagents.domain.call import Call
from asyncagents.domain.delivery import told
from asyncagents.domain.shape import encode
from asyncagents.store.tx import Tx


async def owe(tx: Tx, call: Call) -> None:
    """Whoever wanted to be told that it is settled is, once it is."""
    if call.later is None or not call.later.webhook_url:
        return
    secret = await tx.one("call_secret", call.id, "out")
    await tx.one(
        "insert_delivery",
        f"dlv_{call.id.removeprefix('tool_')}",
        call.id,
        call.session_id,
        call.later.webhook_url,
        secret[0] if secret else "",
        encode(told(call)),
        tx.now,
        tx.now,
        await tx.rev(),
    )
