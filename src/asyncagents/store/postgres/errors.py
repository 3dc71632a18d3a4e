"""Classifies errors of asyncpg: connection lost, retry the verb, invalid value."""

import asyncpg

from asyncagents.errors import AsyncAgentsError, InvalidInput, StoreError

CONNECTION_LOST = (
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
"""The connection is lost or refused for now: a new one may succeed in a moment."""

RETRYABLE = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
    asyncpg.LockNotAvailableError,
)
"""Another transaction was first: the verb is run again and sees what that one did."""

INVALID_VALUE = (
    UnicodeEncodeError,
    OverflowError,
    asyncpg.DataError,
    asyncpg.CharacterNotInRepertoireError,
    asyncpg.UntranslatableCharacterError,
)


OUT_OF_SYNC = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.DataError)
"""Raised by asyncpg in the middle of a statement: the server may still be executing it."""


class RetryNeeded(Exception):
    """The transaction was not committed and may be tried again. `lost`: the connection was."""

    def __init__(self, error: BaseException, *, lost: bool) -> None:
        super().__init__(str(error))
        self.lost = lost
        self.__cause__ = error


def translate_error(error: BaseException) -> BaseException:
    """Return the error for the caller, or `RetryNeeded`."""
    if isinstance(error, AsyncAgentsError | RetryNeeded):
        return error
    if isinstance(error, INVALID_VALUE) and not isinstance(error, asyncpg.InterfaceError):
        return InvalidInput(f"the store cannot take this value: {error}")
    if isinstance(error, asyncpg.DataError):  # both: asyncpg found it before it was sent
        return InvalidInput(f"the store cannot take this value: {error}")
    if isinstance(error, RETRYABLE):
        return RetryNeeded(error, lost=False)
    if isinstance(error, CONNECTION_LOST):
        return RetryNeeded(error, lost=True)
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"the database refused the statement: {error}")
    return error
