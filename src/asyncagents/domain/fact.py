"""What must commit together with something else travels as a fact; the store applies it there."""

from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.call import Result
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.message import UserMessage
from asyncagents.domain.part import Part
from asyncagents.domain.todo import Todo

Source: TypeAlias = Literal["person", "system", "compaction"]
"""Who wants to be answered; or a wish for a summary, which is answered by one."""


class Admit(Struct, frozen=True, kw_only=True):
    """Accept input durably. The same key again changes nothing."""

    message: UserMessage
    parts: tuple[Part, ...]
    key: str
    source: Source = "person"
    wakes: bool = True
    """False: it is kept and shown, and read together with the next input that wakes."""
    same_agent: bool = False
    """Nobody chose one: the session's own answers, if it has answered before."""
    same_model: bool = False

    @property
    def session_id(self) -> SessionId:
        return SessionId(self.message.session_id)


class Admitted(Struct, frozen=True):
    message_id: MessageId
    new: bool


class Settle(Struct, frozen=True):
    """Give an open call its result."""

    call_id: CallId
    result: Result


class WriteTodos(Struct, frozen=True):
    """Replace a session's todos."""

    session_id: SessionId
    todos: tuple[Todo, ...]


Fact: TypeAlias = Admit | Settle | WriteTodos
