"""Checks whether the store accepts writes."""

from asyncagents.store.tx import Tx

FILLER = "x" * 65_536
"""More than fits into the free space of pages that the database already owns on a full disk."""


async def try_write(tx: Tx) -> None:
    """Commit a transaction that leaves no row behind. Raises `StoreError` where a request would."""
    key = str(await tx.rev())
    await tx.run("try_write", key, FILLER)
    await tx.run("end_try", key)
