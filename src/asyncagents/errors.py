"""Every error asyncagents raises on purpose.

AsyncAgentsError                                    handled by
├─ RequestError      the request is wrong → the caller, 4xx
│  ├─ NotFound
│  ├─ InvalidInput
│  │  └─ UntrustedInput
│  ├─ Unauthorized   a signature is missing or invalid
│  ├─ ResultRefused  the tool refused the result
│  └─ Conflict       the state has changed
│     ├─ AlreadySettled
│     ├─ KeyReused   a key was reused with other content
│     └─ SessionBusy
├─ ModelError        the provider failed → the turn ends with this error
├─ ToolError         the tool failed; its message is written for the model
├─ StoreError        the database failed → the caller, 503; a run is dropped and taken up again
│  ├─ ClaimLost      another run owns this session now
│  ├─ Damaged        a row of this session cannot be read → the caller, 500
│  ├─ StuckRow       a row that is due cannot be expired; it is postponed
│  ├─ DatabaseGone   the file was deleted or replaced while it was open
│  ├─ SchemaMismatch the database is newer than this program
│  └─ Closed         the store was closed
├─ Unavailable       not in this process, or not now → the caller, 503
└─ ConfigError       a setting is invalid → the operator, exit 2
   └─ UntrustedConfig

NotTrusted marks the two errors caused by a project that the user does not trust.
"""


class AsyncAgentsError(Exception):
    """Base of all errors raised on purpose; any other exception is a bug."""


class RequestError(AsyncAgentsError):
    """The request cannot be carried out; nothing was changed."""


class NotFound(RequestError):
    """There is no object of this `kind` with this `id`."""

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"no {kind} with id {id!r}")
        self.kind = kind
        self.id = id


class InvalidInput(RequestError):
    """The input is malformed; the message says what was expected."""


class NotTrusted(AsyncAgentsError):
    """The name is only defined in a file that is ignored, as the user does not trust its project."""

    def __init__(self, sentence: str, *, fact: str) -> None:
        super().__init__(sentence)
        self.fact = fact
        """Which name is defined where; the message adds what to do."""


class UntrustedInput(NotTrusted, InvalidInput):
    """The request names something that only an untrusted file defines."""


class Unauthorized(RequestError):
    """The sender is not authenticated; the message does not reveal what was wrong."""


class ResultRefused(RequestError):
    """The tool's validation refused the result; the call still waits for another."""


class Conflict(RequestError):
    """The request is well-formed but conflicts with the current state."""


class AlreadySettled(Conflict):
    """The call has another result already; `first` is an excerpt of that result."""

    def __init__(self, call_id: str, first: str) -> None:
        super().__init__(f"call {call_id!r} already has another result: {first}")
        self.call_id = call_id
        self.first = first


class KeyReused(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"the key {key!r} was used for another request: send the same content again, or take a new key"
        )
        self.key = key


class SessionBusy(Conflict):
    """The session is at work, and the request needs one that rests."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is at work: wait until it rests, or abort it")
        self.session_id = session_id


class ModelError(AsyncAgentsError):
    """The provider failed; the message is shown to people."""


class ToolError(AsyncAgentsError):
    """Raised by a tool; the model reads the message and may act on it."""


class StoreError(AsyncAgentsError):
    """The database failed; no partial write remains."""


class ClaimLost(StoreError):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is claimed by another run now")
        self.session_id = session_id


class Damaged(StoreError):
    """A row cannot be read; only its session is affected. Look it up in a backup."""


class StuckRow(StoreError):
    """A row that is due cannot be expired: postpone it and continue with the others."""

    def __init__(self, kind: str, id: str, why: str) -> None:
        super().__init__(f"the {kind} {id!r} is due and cannot be expired: {why}")
        self.kind = kind
        self.id = id


class DatabaseGone(StoreError):
    """The database file was deleted or replaced while open; put it back and restart the program."""


class SchemaMismatch(StoreError):
    """The database is newer than this program; upgrade asyncagents to open it."""


class Closed(StoreError):
    """The store was closed during the request; whether it was committed is unknown."""


class Unavailable(AsyncAgentsError):
    """This process cannot handle the request, but another may; the message says which."""


class ConfigError(AsyncAgentsError):
    """A setting is invalid; the message names the file, the key and what to write instead."""


class UntrustedConfig(NotTrusted, ConfigError):
    """A setting names something that only an untrusted file defines."""
