"""Checks whether the store accepts writes."""

from asyncagents.store.tx import Tx

FILLER = "x" * 65_536
"""More than fits into the free space of pages that the database already owns on a full disk."""


async def try_write(tx: Tx) -> None:
    """Insert a row and delete it again, in a transaction that commits like any other."""
    key = str(await tx.rev())
    await tx.run("try_write", key, FILLER)
    await tx.run("end_try", key)
