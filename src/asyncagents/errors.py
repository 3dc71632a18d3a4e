"""Every error asyncagents raises on purpose.

AsyncAgentsError                                    who hears of it
├─ RequestError      the caller asked for something wrong → the caller, 4xx
│  ├─ NotFound
│  ├─ InvalidInput
│  │  └─ UntrustedInput
│  ├─ Unauthorized   a signature does not prove what it should
│  ├─ ResultRefused  a tool does not take the result
│  └─ Conflict       the world has moved on
│     ├─ AlreadySettled
│     ├─ KeyReused   a key came again, with other content
│     └─ SessionBusy
├─ ModelError        the provider failed → the turn ends with this error
├─ ToolError         the tool failed; its message is written for the model
├─ StoreError        the database failed → the caller, 503; a run is dropped and taken up again
│  ├─ LeaseLost      another run owns this session now
│  ├─ Damaged        a row of this session cannot be read → the caller, 500
│  ├─ StuckRow       a row that is due cannot be expired; it is put off
│  ├─ DatabaseGone   the file was deleted or replaced while it was open
│  ├─ SchemaMismatch this program cannot read that database
│  └─ Closed         the store was closed
├─ Unavailable       not by this process, or not now → the caller, 503; another may
└─ ConfigError       what the operator set cannot be used → the operator, exit 2
   └─ UntrustedConfig

NotTrusted marks the two whose cause is a project that the user does not trust.
"""


class AsyncAgentsError(Exception):
    """Base of every error on purpose; anything else is a bug."""


class RequestError(AsyncAgentsError):
    """The request cannot be carried out as it stands; nothing was changed."""


class NotFound(RequestError):
    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"no {kind} with id {id!r}")
        self.kind = kind
        self.id = id


class InvalidInput(RequestError):
    """What was given has the wrong form; the message says what was expected."""


class NotTrusted(AsyncAgentsError):
    """Something is named in a file that counts for nothing, as the user does not trust its project."""

    def __init__(self, sentence: str, *, fact: str) -> None:
        super().__init__(sentence)
        self.fact = fact
        """What is named where; the sentence adds what to do."""


class UntrustedInput(NotTrusted, InvalidInput):
    """What was asked for is named in such a file alone."""


class Unauthorized(RequestError):
    """Nobody proved that this comes from whom it should; what was wrong is not told to strangers."""


class ResultRefused(RequestError):
    """The tool looked at the result and does not take it; the call still waits for another."""


class Conflict(RequestError):
    """The request is well formed but the world has moved on."""


class AlreadySettled(Conflict):
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
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is at work: wait until it rests, or abort it")
        self.session_id = session_id


class ModelError(AsyncAgentsError):
    """The provider failed; the message is shown to people."""


class ToolError(AsyncAgentsError):
    """Raise it from a tool: the model reads the message and may act on it."""


class StoreError(AsyncAgentsError):
    """The database could not do what was asked; nothing half-done stays."""


class LeaseLost(StoreError):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} is run by someone else now")
        self.session_id = session_id


class Damaged(StoreError):
    """A row cannot be read; its session cannot go on, all others can. Look at it in a backup."""


class StuckRow(StoreError):
    """A row that is due fails whenever it is expired: put it off, and go on with the others."""

    def __init__(self, kind: str, id: str, why: str) -> None:
        super().__init__(f"the {kind} {id!r} is due and cannot be ended: {why}")
        self.kind = kind
        self.id = id


class DatabaseGone(StoreError):
    """What is written would be lost with the open file; put the file back, and start the program again."""


class SchemaMismatch(StoreError):
    """The database is newer than this program; upgrade asyncagents to open it."""


class Closed(StoreError):
    """The store was closed while the request was on its way; whether it was done is not known."""


class Unavailable(AsyncAgentsError):
    """This process cannot do it, and another may; the message says which."""


class ConfigError(AsyncAgentsError):
    """A setting cannot be used; the message names the file, the key and what to write instead."""


class UntrustedConfig(NotTrusted, ConfigError):
    """A setting names what stands in such a file alone."""
