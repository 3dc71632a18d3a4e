"""What a session waits for outside, as people and programs are told of it."""

from typing import Any

from asyncagents.domain.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call import Call, Kind
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.shape import Shape


class Awaited(Shape, frozen=True, kw_only=True):
    """A call that somebody answers (`ask_id`), or that takes a result under its own id."""

    id: CallId
    session_id: SessionId
    tool: str
    input: dict[str, Any]
    kind: Kind
    since: int
    """In ms since the epoch."""
    due: int | None = None
    """When it waits no more."""
    note: str = ""
    who: str = ""
    """Whom it asks, in words; nothing: whoever reads it."""
    ask_id: str | None = None
    """What an answer is addressed to; None: nobody is asked."""
    permission: PermissionRequest | None = None
    question: QuestionRequest | None = None
    approval: bool = False
    """Its one question is whether something may be done."""
    lineage: tuple[Session, ...] = ()
    """From the root of the tree down to the session that waits."""


def awaited(call: Call, lineage: tuple[Session, ...] = ()) -> Awaited:
    """Of a call that is open."""
    state = call.open
    assert state is not None, "only what is open waits"
    return Awaited(
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


def is_outside(call: Call) -> bool:
    """Whether it is open, and not for a session of the same tree, which has its own reasons."""
    return call.open is not None and call.open.kind != "task" and call.open.watch is None
