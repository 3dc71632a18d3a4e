"""What went wrong with a database, and what is to be done about it."""

import asyncpg

from asyncagents.errors import AsyncAgentsError, InvalidInput, StoreError

LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
)
"""The connection is gone, or there is none to be had just now: somebody may answer in a moment."""

RETRIED = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
    asyncpg.LockNotAvailableError,
)
"""Somebody else was first: the verb is run again, and sees what he did."""

UNFIT = (
    UnicodeEncodeError,
    OverflowError,
    asyncpg.DataError,
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.UntranslatableCharacterError,
)


UNSYNCED = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.DataError)
"""Found by asyncpg in the middle of a statement: what the server was told of it may still be under way."""


class Again(Exception):
    """Nothing came of it; the next try may."""

    def __init__(self, error: BaseException, *, lost: bool) -> None:
        super().__init__(str(error))
        self.lost = lost
        self.__cause__ = error


def judged(error: BaseException) -> BaseException:
    """As callers hear of it, or `Again`."""
    if isinstance(error, AsyncAgentsError | Again):
        return error
    if isinstance(error, UNFIT) and not isinstance(error, asyncpg.InterfaceError):
        return InvalidInput(f"the store cannot take this value: {error}")
    if isinstance(error, asyncpg.DataError):  # both: asyncpg found it before it was sent
        return InvalidInput(f"the store cannot take this value: {error}")
    if isinstance(error, RETRIED):
        return Again(error, lost=False)
    if isinstance(error, LOST):
        return Again(error, lost=True)
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"the database could not do this: {error}")
    return error
