"""A call that waits for a person, with the lineage of its session."""

from typing import Any, ClassVar

from msgspec import Struct

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.call import Call, OpenKind
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.shape import Shape


class OpenCall(Shape, frozen=True, kw_only=True):
    """An open call: a person answers it under `ask_id`, or a program submits its result under `id`."""

    schema_name: ClassVar[str] = "Awaited"

    id: CallId
    session_id: SessionId
    tool: str
    input: dict[str, Any]
    kind: OpenKind
    since: int
    """In ms since the epoch."""
    due: int | None = None
    """The deadline, in ms since the epoch."""
    note: str = ""
    who: str = ""
    """The person, role or channel that is asked, as free text; empty: any person."""
    ask_id: str | None = None
    """The id of the ask or question; None: the call does not ask a person."""
    permission: PermissionRequest | None = None
    question: QuestionRequest | None = None
    approval: bool = False
    """Whether its one question is an approval."""
    lineage: tuple[Session, ...] = ()
    """From the root of the tree down to the session that waits."""


def describe_open_call(call: Call, lineage: tuple[Session, ...] = ()) -> OpenCall:
    """Build the view of an open call."""
    state = call.open
    assert state is not None, "only what is open waits"
    return OpenCall(
        id=call.id,
        session_id=call.session_id,
        tool=call.tool,
        input=call.input,
        kind=state.kind,
        since=state.since,
        due=state.due,
        note=state.note,
        who=state.who,
        ask_id=call.ask_id if call.asking else None,
        permission=state.ask,
        question=state.question,
        approval=state.approval,
        lineage=lineage,
    )


def waits_outside_tree(call: Call) -> bool:
    """Tell whether a call is open and waits for something else than a task of the same tree."""
    return call.open is not None and call.open.kind != "task" and call.open.watch is None


class WaitingCall(Struct, frozen=True):
    """A call that waits for a person, with the lineage of its session."""

    schema_name: ClassVar[str] = "Waiting"
    call: Call
    lineage: tuple[Session, ...]
    """The sessions from the root of the tree down to the one that asks."""

    @property
    def who(self) -> str:
        """The person, role or channel that is asked, as free text; empty: any person."""
        return self.call.open.who if self.call.open else ""

    @property
    def until(self) -> int | None:
        """The deadline in ms since the epoch; None: there is none."""
        return self.call.open.due if self.call.open else None
