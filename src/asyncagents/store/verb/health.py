"""Whether the store takes what is written."""

from asyncagents.store.tx import Tx

FILLER = "x" * 65_536
"""More than fits into what a full disk has left of pages that are taken already."""


async def try_write(tx: Tx) -> None:
    """Write a row and take it out again: the transaction is kept as any other is."""
    key = str(await tx.rev())
    await tx.run("try_write", key, FILLER)
    await tx.run("end_try", key)
